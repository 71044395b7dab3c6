import PostgresStore
import Terminal

struct TenantWhereCommand: Command {
    static let name = "where"
    static let users = CommandUsers.operatorsOfTenants
    static let summary = "Shows which tenant is in which database of an installation."
    static let discussion = """
        A tenant is served in one database. If two databases have a tenant of the same name, the command reports it \
        and the exit code is 1, because each of them counts and limits what it sends by itself. The exit code is also \
        1 if a database is named twice, under two addresses, if one cannot be asked, because its tenants are then \
        unknown, and if a tenant that is arriving, or is asked for by its name, is in none of the databases.
        """
    static let examples = [
        "tenant where --databases /etc/pushq/databases", "tenant where acme --databases /etc/pushq/databases",
    ]

    @Positional("Only this tenant.") var tenant: TenantName?
    var databases = DatabaseList()

    func run(_ console: Console) async throws {
        let survey = try await survey(of: tenant?.text)
        if let tenant, survey.rows.isEmpty, survey.silent.isEmpty {
            throw Failure("no database has a tenant \(tenant.text)")
        }
        console.show(
            survey.rows,
            columns: [
                Column("tenant") { .text($0.tenant) }, Column("state") { .text("\($0.whereabouts)") },
                Column("queues") { .count($0.queueCount) }, Column("number") { .count($0.number) },
                Column("database") { .text($0.database) },
            ])
        for remark in survey.remarks { console.remark(remark) }
        guard survey.remarks.isEmpty else { throw Unsuccessful() }
    }

    /// Asks all databases for the tenant of this name, or for all tenants.
    private func survey(of name: String?) async throws -> TenantSurvey {
        var survey = TenantSurvey(isOfOneTenant: name != nil)
        var known: [DatabaseIdentity: DatabaseAddress] = [:]
        let addresses = try databases.addresses()
        for address in addresses {
            do {
                let (identity, places) = try await DatabaseOptions.session(at: address) {
                    (try await $0.databaseIdentity(), try await $0.tenantPlaces(named: name))
                }
                if let first = known[identity] {
                    survey.namedTwice.append(DatabaseList.namedTwice(address, as: first))
                } else {
                    known[identity] = address
                    survey.rows += places.map { TenantSurvey.Row($0, in: address.place) }
                }
            } catch let error as PostgresError {
                survey.silent.append("cannot be reached: \(address.place): \(error)")
            } catch let error as MissingRights where addresses.count > 1 {
                survey.silent.append("cannot be asked: \(address.place): \(error.description(for: Self.users))")
            }
        }
        survey.keepPresentPlaces()
        return survey
    }
}

/// What the databases of an installation say about the places of tenants.
private struct TenantSurvey {
    /// Whether only one tenant was asked for.
    let isOfOneTenant: Bool
    var rows: [Row] = []
    /// Says of each database that cannot be asked why.
    var silent: [String] = []
    var namedTwice: [String] = []

    struct Row {
        let tenant: String
        let whereabouts: Whereabouts
        let isHere: Bool
        let queueCount: Int
        let number: Int
        let database: String

        init(_ place: TenantPlace, in database: String) {
            tenant = place.tenant
            whereabouts = Whereabouts(place)
            isHere = place.isHere
            queueCount = place.queueCount
            number = place.number
            self.database = database
        }
    }

    /// The rows of the databases that serve a tenant, by tenant.
    private var here: [String: [Row]] { Dictionary(grouping: rows.filter(\.isHere), by: \.tenant) }

    /// Sorts the rows, and leaves out former places of tenants whose present place is known.
    mutating func keepPresentPlaces() {
        let here = here
        rows.removeAll { !$0.isHere && $0.whereabouts.isMoved && here[$0.tenant] != nil }
        rows.sort { ($0.tenant, $0.number) < ($1.tenant, $1.number) }
    }

    /// What is not as it should be.
    var remarks: [String] {
        var remarks = silent + namedTwice
        remarks += lost.map(remark(onLost:))
        remarks += remarksOnDoubled
        return remarks
    }

    /// The tenants that are in none of the databases and should be in one.
    private var lost: [String] {
        guard silent.isEmpty else { return [] }
        let here = here
        return Dictionary(grouping: rows, by: \.tenant).filter { tenant, rows in
            // A stopped tenant is in the database that it leaves. A tenant that has moved may have been removed
            // afterwards.
            here[tenant] == nil && !rows.contains(where: \.whereabouts.isStopped)
                && (isOfOneTenant || rows.contains(where: \.whereabouts.isArriving))
        }.keys.sorted()
    }

    private func remark(onLost tenant: String) -> String {
        rows.contains { $0.tenant == tenant && $0.whereabouts.isMoved }
            ? "\(tenant) is in none of these databases: name the one that it has moved to as well. If that was "
                + "asked already, \(tenant) was removed there, or the database was restored to before it arrived"
            : "\(tenant) is in none of these databases: it was removed, or a database was restored to before it "
                + "arrived"
    }

    private var remarksOnDoubled: [String] {
        here.filter { $0.value.count > 1 }.sorted { $0.key < $1.key }.map { tenant, rows in
            "\(tenant) is in \(NumberText.counted(rows.count, "database")): suspend it in all but one at once "
                + "with pushq-admin tenant suspend, and remove it there with pushq-admin tenant remove. If it was on its way "
                + "when a database was restored, undo that first with pushq-admin tenant move --abandon"
        }
    }
}
