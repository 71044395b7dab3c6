import PostgresStore
import Terminal

struct TenantWhereCommand: Command {
    static let name = "where"
    static let users = CommandUsers.operatorsOfTenants
    static let summary = "Shows which tenant is in which database of an installation."
    static let discussion = """
        A tenant is served in one database. If two databases have a tenant of the same name, the command reports it \
        and the exit code is 1, because each of them counts and limits what it sends by itself. The exit code is also \
        1 if a database is named twice, under two addresses, if one cannot be reached, because its tenants are then \
        unknown, and if a tenant that is arriving, or is asked for by its name, is in none of the databases.
        """
    static let examples = [
        "tenant where --databases /etc/pushq/databases", "tenant where acme --databases /etc/pushq/databases",
    ]

    @Positional("Only this tenant.") var tenant: TenantName?
    var databases = DatabaseList()

    fileprivate struct Row {
        let tenant: String
        let state: String
        let queues: Int
        let number: Int
        let database: String
        let isHere: Bool
        let isStopped: Bool
    }

    func run(_ console: Console) async throws {
        let name = tenant?.text
        var rows: [Row] = []
        var silent: [String] = []
        var known: [DatabaseIdentity: DatabaseAddress] = [:]
        var namedTwice: [String] = []
        for address in try databases.addresses() {
            do {
                let (identity, places) = try await DatabaseOptions.session(at: address) {
                    (try await $0.databaseIdentity(), try await $0.tenantPlaces(named: name))
                }
                if let first = known[identity] {
                    namedTwice.append(DatabaseList.namedTwice(address, as: first))
                } else {
                    known[identity] = address
                    rows += places.map { Row($0, in: address.place) }
                }
            } catch let error as PostgresError {
                silent.append("\(address.place): \(error)")
            }
        }
        let here = Dictionary(grouping: rows.filter(\.isHere), by: \.tenant)
        // The present place of a tenant matters more than its former ones.
        rows.removeAll { !$0.isHere && $0.state.hasPrefix("moved") && here[$0.tenant] != nil }
        rows.sort { ($0.tenant, $0.number) < ($1.tenant, $1.number) }
        if let name, rows.isEmpty, silent.isEmpty { throw Failure("no database has a tenant \(name)") }
        console.show(
            rows,
            columns: [
                Column("tenant") { .text($0.tenant) }, Column("state") { .text($0.state) },
                Column("queues") { .count($0.queues) }, Column("number") { .count($0.number) },
                Column("database") { .text($0.database) },
            ])
        for text in silent { console.remark("cannot be reached: \(text)") }
        for text in namedTwice { console.remark(text) }
        // A stopped tenant is in the database that it leaves. A tenant that has moved may have been removed afterwards.
        let lost =
            silent.isEmpty
            ? Dictionary(grouping: rows, by: \.tenant).filter { tenant, rows in
                here[tenant] == nil && !rows.contains(where: \.isStopped)
                    && (name != nil || rows.contains { $0.state.hasPrefix("arriving") })
            }.keys.sorted() : []
        for tenant in lost {
            console.remark(
                rows.contains { $0.tenant == tenant && $0.state.hasPrefix("moved to") }
                    ? "\(tenant) is in none of these databases: name the one that it has moved to as well. If that was "
                        + "asked already, \(tenant) was removed there, or the database was restored to before it arrived"
                    : "\(tenant) is in none of these databases: it was removed, or a database was restored to before it "
                        + "arrived"
            )
        }
        let twice = here.filter { $0.value.count > 1 }.keys.sorted()
        for tenant in twice {
            console.remark(
                "\(tenant) is in \(NumberText.counted(here[tenant]?.count ?? 0, "database")): suspend it in all but one at once "
                    + "with pushq-admin tenant suspend, and remove it there with pushq-admin tenant remove. If it was on its way "
                    + "when a database was restored, undo that first with pushq-admin tenant move --abandon")
        }
        guard silent.isEmpty, namedTwice.isEmpty, twice.isEmpty, lost.isEmpty else { throw Unsuccessful() }
    }
}

extension TenantWhereCommand.Row {
    fileprivate init(_ place: TenantPlace, in database: String) {
        let state =
            switch place.move {
            case nil: "here"
            case (.moved, true, let peer)?: place.isHere ? "here" : "moved to \(peer)"
            case (.detached, true, let peer)?: "stopped, moving to \(peer)"
            case (_, true, let peer)?: "here, moving to \(peer)"
            case (.arrived, false, let peer)?: "here, just moved from \(peer)"
            case (_, false, let peer)?: "arriving from \(peer)"
            }
        self.init(
            tenant: place.tenant, state: state, queues: place.queueCount, number: place.number, database: database,
            isHere: place.isHere, isStopped: place.move?.stage == .detached)
    }
}
