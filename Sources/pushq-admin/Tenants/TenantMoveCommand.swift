import PostgresStore
import QueueCore
import Terminal
import Transport

struct TenantMoveCommand: Command {
    static let name = "move"
    static let users = CommandUsers.operatorsOfTenants
    static let summary = "Moves a tenant with all its data to another database of the installation."
    static let discussion = """
        Devices, campaigns, schedules, jobs, history, feedback and settings move too, and keep their numbers, so every \
        apns-id stays the same. Everything is copied while sending continues. Then the tenant is stopped until what is \
        in flight has ended and the changes since then are copied; how long that takes does not depend on how much the \
        tenant has. Meanwhile calls of producers are refused with PQ503. Afterwards the old database refuses them with \
        PQ410, which says where the tenant is.

        If it is interrupted, run it again to continue. Until the tenant has arrived, --abandon cancels the move, also \
        if the other database cannot be reached. But if the tenant was already out of use here when the move was \
        interrupted, only the other database says whether it has arrived. If that one is lost for good, \
        --target-is-lost brings the tenant back. If the database that it came from is lost before the move has ended, \
        run the command with both options at the new place. Both databases need the same schema and different numbers, \
        and workers must serve both. Give the addresses of the servers themselves, not of a pooler.

        The master key is read from PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY. In the other database, credentials are \
        sealed under its first key, so the workers there need that key.
        """
    static let examples = [
        "tenant move acme --to postgres://pushq@db2/pushq",
        "tenant move acme --to postgres://pushq@db2/pushq --router postgres://postgres@router/router",
        "tenant move acme --to postgres://pushq@db2/pushq --abandon",
        "tenant move acme --to postgres://pushq@db2/pushq --abandon --target-is-lost",
    ]

    @Positional("Its name.") var tenant: TenantName
    @Option("The database that it moves to.", "URL") var to: ConnectionString
    @Flag("Leave the tenant where it is, and delete what was copied.") var abandon
    @Flag("With --abandon: do not ask the other database, because it is lost for good.") var targetIsLost
    @Option("How long to wait for open transactions of producers; and, with the tenant stopped, for what is in flight.")
    var patience: Duration = .seconds(60)
    @Option(
        "The database of a router, as a superuser there. The router is updated at once. Without it, run pushq-admin router afterwards.",
        "URL")
    var router: ConnectionString?
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        guard abandon || !targetIsLost else { throw UsageError("--target-is-lost is for --abandon") }
        guard !abandon else { return try await undo(console) }
        let (name, patience) = (tenant.text, patience)
        let (here, there) = (try database.address, try to.address)
        let router = try router?.address
        let masterKeys = try MasterKeySetting().keys(console.warn)
        let report = try await withBoth { source, target in
            // Checks the router now: after the tenant has moved, an error would come too late.
            if let router { try await Self.withRouter(at: router, on: source.loop) { _ in } }
            let bar = ProgressBar("rows", total: nil, on: console)
            defer { bar.finish() }
            let mover = TenantMover(
                name, from: .init(source, name: here.place), to: .init(target, name: there.place), patience: patience,
                progress: { bar.show($0) },
                whenArrived: {
                    if let router { await Self.tell(router, that: name, isIn: target, console) }
                    for note in await target.grantMoved(name) { console.remark(note) }
                    if let note = await target.unservedNote(on: name, at: there) { console.remark(note) }
                })
            return try await mover.run(under: masterKeys)
        }
        console.show([
            ("tenant", .text(name)), ("from", .text(here.place)), ("to", .text(there.place)),
            ("rows", .count(report.rows)), ("copied", .count(report.copied)),
            ("copied_while_stopped", .count(report.copiedWhileStopped)), ("stopped_for", .duration(report.pause)),
            ("deleted", .count(report.deleted)),
        ])
    }

    /// Runs `body` with a session in each of the two databases.
    private func withBoth<Success: Sendable>(
        _ body: @Sendable (_ source: PostgresConnection, _ target: PostgresConnection) async throws -> Success
    ) async throws -> Success {
        let (name, there) = (tenant.text, try to.address)
        return try await database.session { source in
            // A login that may not move tenants is refused before the other database is queried.
            if try await source.loginRights() != nil { _ = try await source.tenantMove(of: name) }
            let target = try await DatabaseOptions.connect(toWriteTo: there, on: source.loop)
            defer { target.close() }
            target.terms = source.terms
            return try await body(source, target)
        }
    }

    // MARK: Undoing

    private func undo(_ console: Console) async throws {
        let (name, patience) = (tenant.text, patience)
        let (here, there) = (try database.address, try to.address)
        let (move, isHere) = try await database.session { source in
            (try await source.tenantMove(of: name), try await source.tenants(named: name).first != nil)
        }
        let stage = move.flatMap { $0.leaves ? $0.stage : nil }
        if !isHere, !targetIsLost, move == nil || stage == .moved {
            try askToDelete(name, in: there.place, console)
        }
        if targetIsLost {
            if stage == .detached || stage != nil && stage != .moved && move?.wasRestored == true {
                try confirmation.ask(
                    console,
                    "brings \(name) back as it was when it was stopped; if it has arrived at \(there.place), and that "
                        + "database is used again, both send for it")
            } else if move?.leaves == false, move?.stage == .copying {
                try askToDelete(name, in: here.place, console)
            }
            guard try await undoHere(name, patience) else {
                return console.show(
                    "deleted what was copied of \(name) to \(here.place)",
                    json: ["tenant": .string(name), "moved": false])
            }
        } else {
            do {
                let isHere = try await withBoth { source, target in
                    try await TenantMover(
                        name, from: .init(source, name: here.place), to: .init(target, name: there.place),
                        patience: patience
                    ).abandon()
                }
                guard isHere else {
                    return console.show(
                        "deleted what was left of \(name) in \(there.place)",
                        json: ["tenant": .string(name), "moved": true])
                }
            } catch PostgresError.cannotConnect(let address, let reason) where stage != nil && stage != .moved {
                let problem = "\(there.place) cannot be reached (\(address): \(reason))"
                guard stage != .detached else {
                    throw Failure(
                        "\(problem), and \(name) may have arrived there. If that database is lost for good, add "
                            + "--target-is-lost")
                }
                _ = try await undoHere(name, patience)
                console.remark(
                    "\(problem), so what was copied there is left: to delete it, run the command again later")
            }
        }
        console.show("\(name) stays in \(here.place)", json: ["tenant": .string(name), "moved": false])
    }

    private func askToDelete(_ name: String, in place: String, _ console: Console) throws {
        try confirmation.ask(
            console, "deletes what was copied of \(name) to \(place), which may be the last that is left of it")
    }

    /// Undoes the move without the other database. Returns whether the tenant is here.
    private func undoHere(_ name: String, _ patience: Duration) async throws -> Bool {
        let here = try database.address
        return try await database.session { source in
            try await TenantMover.abandon(name, at: .init(source, name: here.place), patience: patience)
        }
    }
}

extension TenantMoveCommand {
    private static func withRouter<Success>(
        at address: DatabaseAddress, on loop: EventLoop, _ body: (PostgresConnection) async throws -> Success
    ) async throws -> Success {
        let connection = try await DatabaseOptions.connect(toWriteTo: address, on: loop)
        defer { connection.close() }
        guard try await connection.isRouter() else {
            throw Failure("\(address.place) is not a router; pushq-admin router --help says how to make one")
        }
        return try await body(connection)
    }

    /// Tells the router where the tenant is. Does not throw, because the tenant has moved in any case.
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
        console.remark(
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
    /// Returns what to do if no running worker serves all queues of a tenant that has arrived. Does not throw, because
    /// the tenant has moved in any case.
    fileprivate func unservedNote(on tenant: String, at place: DatabaseAddress) async -> String? {
        guard let queues = try? await unservedQueues(of: tenant), let first = queues.first else { return nil }
        return "no running worker of \(place.place) serves \(first)"
            + (queues.count > 1 ? " and \(queues.count - 1) more queues of \(tenant)" : "")
            + ", so nothing is sent there: run pushq work for this database, too"
    }

    /// Grants the logins of a tenant that has arrived what they need to act for it. Returns what is left to do for
    /// logins that could not be granted it. Does not throw, because the tenant has moved in any case.
    fileprivate func grantMoved(_ tenant: String) async -> [String] {
        var notes: [String] = []
        do {
            for login in try await tenantLogins(of: tenant) {
                let grant =
                    "pushq-admin tenant grant \(tenant) \(ShellWords.quoted(login.login))"
                    + (login.isReadOnly ? " --read-only" : "")
                do {
                    try await grantTenant(tenant, to: login.login, isReadOnly: login.isReadOnly)
                } catch TenantGrantError.noRole {
                    notes.append(
                        "the other database has no role \(login.login): create it there, then run: \(grant)")
                } catch TenantGrantError.mayNotGrant(let refusal) {
                    notes.append(
                        "in the other database, \(refusal.login) may not grant \(refusal.role): let an administrator of its "
                            + "server run: grant \(refusal.role) to \(login.login.quotedIdentifier)")
                } catch TenantGrantError.hadNamesake(let tenants) {
                    notes.append("in the other database, \(Failure.hadNamesake(login.login, tenants))")
                } catch TenantGrantError.isWorker {
                    notes.append(
                        "in the other database, \(login.login) runs workers, so it may not act for \(tenant) there: use "
                            + "another login")
                } catch TenantGrantError.doesNotInherit {
                    notes.append(
                        "in the other database, \(login.login) does not inherit the rights of its roles: let an "
                            + "administrator run: alter role \(login.login.quotedIdentifier) inherit; then run there: \(grant)"
                    )
                } catch {
                    notes.append(
                        "in the other database, \(login.login) could not be given rights for \(tenant): \(error). Give "
                            + "them there with: \(grant)")
                }
            }
        } catch {
            notes.append(
                "in the other database, the logins of \(tenant) could not be read: \(error). Give them rights there with: "
                    + "pushq-admin tenant grant")
        }
        return notes
    }
}
