import PostgresStore
import Terminal
import Transport

struct TenantMoveCommand: Command {
    static let name = "move"
    static let users = CommandUsers.operators(
        because: "tenants, their limits and their logins belong to the installation")
    static let summary = "Moves a tenant with all its data to another database of the installation."
    static let discussion = """
        Devices, campaigns, schedules, jobs, history, feedback and settings move too, and keep their numbers, so every \
        apns-id stays the same. Everything is copied while sending continues. Then the tenant is stopped until what is \
        in flight has ended and the changes since then are copied; how long that takes does not depend on how much the \
        tenant has. Meanwhile calls of producers are refused with PQ503. Afterwards the old database refuses them with \
        PQ410, which says where the tenant is.

        If it is interrupted, run it again to continue. Until the tenant has arrived, --abandon cancels the move. Both \
        databases need the same schema and different numbers, and workers must serve both.

        The master key is read from PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY. In the other database, credentials are \
        sealed under its first key, so the workers there need that key.
        """
    static let examples = [
        "tenant move acme --to postgres://pushq@db2/pushq",
        "tenant move acme --to postgres://pushq@db2/pushq --router postgres://postgres@router/router",
        "tenant move acme --to postgres://pushq@db2/pushq --abandon",
    ]

    @Positional("Its name.") var tenant: TenantName
    @Option("The database that it moves to.", "URL") var to: ConnectionString
    @Flag("Leave the tenant where it is, and delete what was copied.") var abandon
    @Option("How long to wait for open transactions of producers; and, with the tenant stopped, for what is in flight.")
    var patience: Duration = .seconds(60)
    @Option(
        "The database of a router, as a superuser there. The router is updated at once. Without it, run pushq-admin router afterwards.",
        "URL")
    var router: ConnectionString?
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (name, abandon, patience) = (tenant.text, abandon, patience)
        let (here, there) = (try database.address, try to.address)
        let router = try router?.address
        let masterKeys = abandon ? nil : try MasterKeySetting().keys(console)
        let result = try await database.session { source in
            // Who may not move tenants hears it before another database is asked.
            if try await source.loginStanding() != nil { _ = try await source.tenantMove(of: name) }
            let target = try await PostgresConnection.connect(
                to: there, as: "pushq-admin", on: source.loop, needsWrites: true)
            defer { target.close() }
            // To say so only when the tenant has moved would be late.
            if let router { try await Self.withRouter(at: router, on: source.loop) { _ in } }
            let bar = ProgressBar("rows", total: nil, on: console)
            defer { bar.finish() }
            var missing: [String] = []
            let mover = TenantMover(
                name, from: .init(source, name: here.place), to: .init(target, name: there.place), patience: patience,
                progress: { bar.show($0) },
                whenArrived: {
                    missing = try await target.grantMoved(name)
                    if let router { await Self.tell(router, that: name, isIn: target, console) }
                })
            guard let masterKeys else {
                try await mover.abandon()
                return nil as (TenantMover.Report, [String])?
            }
            return (try await mover.run(under: masterKeys), missing)
        }
        guard let (report, missing) = result else {
            return console.show(
                "\(name) stays in \(here.place)", json: ["tenant": .string(name), "moved": false])
        }
        console.show([
            ("tenant", .text(name)), ("from", .text(here.place)), ("to", .text(there.place)),
            ("rows", .count(report.rows)), ("copied", .count(report.copied)),
            ("copied_while_stopped", .count(report.copiedWhileStopped)), ("stopped_for", .duration(report.pause)),
            ("deleted", .count(report.deleted)),
        ])
        for login in missing {
            console.note(
                "the other database has no role \(login): create it there, then run: pushq-admin tenant grant \(name) \(login)"
            )
        }
    }
}

extension TenantMoveCommand {
    private static func withRouter<Success>(
        at address: DatabaseAddress, on loop: EventLoop, _ body: (PostgresConnection) async throws -> Success
    ) async throws -> Success {
        let connection = try await PostgresConnection.connect(
            to: address, as: "pushq-admin", on: loop, needsWrites: true)
        defer { connection.close() }
        guard try await connection.isRouter() else {
            throw Failure("\(address.place) is not a router; pushq-admin router --help says how to make one")
        }
        return try await body(connection)
    }

    /// The tenant has moved, whatever becomes of this.
    private static func tell(
        _ router: DatabaseAddress, that tenant: String, isIn target: PostgresConnection, _ console: Console
    ) async {
        let problem: String
        do {
            guard let number = try await target.tenantPlaces(named: tenant).first?.number else { return }
            let isKnown = try await withRouter(at: router, on: target.loop) {
                try await $0.tellRouter(that: tenant, isIn: number)
            }
            guard !isKnown else { return }
            problem = "it does not know the other database"
        } catch {
            problem = "\(error)"
        }
        console.note(
            "the router was not updated after the move of \(tenant): \(problem); update it with: pushq-admin router")
    }
}

extension ProgressBar {
    fileprivate func show(_ step: TenantMover.Step) {
        switch step {
        case .copying(let rows, let copied): update(rows, detail: "\(NumberText.grouped(copied)) copied")
        case .stopping: update(0, detail: "waiting for what is in flight")
        case .waiting: update(0, detail: "waiting for open transactions")
        case .carrying(let copied): update(copied, detail: "copied while it is stopped")
        case .deleting(let rows): update(rows, detail: "deleted at the old place")
        }
    }
}

extension PostgresConnection {
    /// Gives the logins of a tenant that has come here what they need to act for it. Returns those that are no roles
    /// here.
    fileprivate func grantMoved(_ tenant: String) async throws -> [String] {
        var missing: [String] = []
        for login in try await tenantLogins(of: tenant) {
            do {
                try await grantTenant(tenant, to: login.login, isReadOnly: login.isReadOnly)
            } catch TenantGrantError.noRole {
                missing.append(login.login)
            }
        }
        return missing
    }
}
