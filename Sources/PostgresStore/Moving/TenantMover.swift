import Cryptography
import FoundationEssentials
import Transport

/// Moves a tenant from one database of an installation to another (functions/move_tenant.sql).
///
/// The state of the move is in both databases, so another call goes on where this one was interrupted, wherever that
/// was. Until the tenant has arrived, ``abandon()`` undoes it.
///
/// 1. *Copying.* Contents are copied while the tenant is sent for. What changes meanwhile is noted, and carried over
///    behind it (``NotedChanges``), until little is left.
/// 2. *Stopping.* The tenant is suspended, and what workers hold of it comes to its end.
/// 3. *Detached.* Its settings are taken out of their tables. Whoever has found a queue of it before is waited for.
///    Then nobody can change anything, and what was noted since is carried over: nothing else is looked at.
/// 4. *Arrived.* Its settings are put in at the new place, in one transaction. Workers there begin.
/// 5. *Moved.* The old place says where the tenant is, and what is left of it there is deleted.
package struct TenantMover {
    /// What a move is at.
    package enum Step: Sendable {
        case copying(rows: Int, copied: Int)
        case stopping
        case waiting
        case carrying(copied: Int)
        case deleting(rows: Int)
    }

    /// What was done.
    package struct Report: Sendable {
        /// Rows that were compared with the new place, and copied if they were not there, but for settings; nil if
        /// another call has done that.
        package var rows: Int?
        /// Rows that were copied, those among them that were copied again.
        package var copied = 0
        /// Those of them that were copied while the tenant was stopped.
        package var copiedWhileStopped = 0
        /// How long it was stopped; nil if another call has stopped it.
        package var pause: Duration?
        package var deleted = 0
    }

    /// A database, and what to call it: without a password.
    package struct Place {
        let store: PostgresConnection
        let name: String

        package init(_ store: PostgresConnection, name: String) {
            self.store = store
            self.name = name
        }
    }

    private let source: Place
    private let target: Place
    private let tenant: String
    private let patience: Duration
    private let progress: (Step) -> Void
    private let whenArrived: () async -> Void
    private var changes: NotedChanges { NotedChanges(tenant: tenant, source: source.store, target: target.store) }

    /// - Parameters:
    ///   - patience: how long to wait for transactions of others; and, at another time, how long the tenant may be
    ///     stopped until what is under way has ended. After that it goes on at its old place.
    ///   - whenArrived: is called when the tenant is at the new place, before what is left at the old one is deleted;
    ///     again by each call that goes on after that. Its failures do not stop the move.
    package init(
        _ tenant: String, from source: Place, to target: Place, patience: Duration = .seconds(60),
        progress: @escaping (Step) -> Void = { _ in }, whenArrived: @escaping () async -> Void = {}
    ) {
        self.tenant = tenant
        self.source = source
        self.target = target
        self.patience = patience
        self.progress = progress
        self.whenArrived = whenArrived
    }

    // MARK: Moving

    /// Moves it, or goes on with that.
    /// - Parameter masterKeys: those of the fleet at the new place; they also open what the old one has.
    /// - Throws: ``TenantMoveError``; `PostgresError`. In either case another call goes on.
    package func run(under masterKeys: MasterKeys) async throws -> Report {
        try await checkRights()
        try await compareDatabases()
        return try await alone { try await move(under: masterKeys) }
    }

    private func move(under masterKeys: MasterKeys) async throws -> Report {
        var report = Report()
        if let report = try await finishArrived() { return report }
        try await checkKeys(masterKeys)
        let stage = try await begin().stage
        do {
            var wasStopped: ContinuousClock.Instant?
            if stage == .copying { try await copy(&report) }
            if stage != .detached { wasStopped = try await stop() }
            try await handOver(under: masterKeys, &report)
            report.pause = wasStopped.map { $0.duration(to: .now) }
        } catch let error where !Self.mayHaveArrived(error) {
            await goOnHere()
            throw error
        }
        return try await finish(&report)
    }

    /// Has the tenant arrive with all that has changed.
    private func handOver(under masterKeys: MasterKeys, _ report: inout Report) async throws {
        try await waitForOthers()
        try await source.store.takeLateSettings(of: tenant)
        let before = report.copied
        try await map(unfinishedState())
        // A queue that was made at the last moment.
        let queues = try await changes.queuesToNote()
        if !queues.isEmpty { try await copy(queues: queues, &report) }
        while try await carry(&report, { .carrying(copied: $0.copied - before) }) > 0 {}
        report.copiedWhileStopped = report.copied - before
        try await arrive(under: masterKeys)
    }

    /// The tenant goes on where it was. What was copied is there for the next call, which compares it: so nothing need
    /// be noted until then.
    private func goOnHere() async {
        guard let stage = try? await unfinishedState().stage, stage != .stopping else { return }
        if stage == .detached { try? await source.store.reattachTenant(tenant) }
        try? await changes.stop(patience: .seconds(5))
    }

    /// Undoes a move that has not come to its end: the tenant is at its old place as it was. Returns whether it is: it
    /// is nowhere if it had arrived at a place that went back in time.
    package func abandon() async throws -> Bool {
        try await checkRights()
        return try await alone { try await leave() }
    }

    private func leave() async throws -> Bool {
        let (here, there) = try await states()
        guard there?.stage != .arrived else { throw TenantMoveError.hasArrived(tenant, target.name) }
        guard here != nil || there != nil else { throw TenantMoveError.notUnderWay(tenant) }
        var isHere = true
        if let here {
            let isThere = try await isAtTarget()
            if here.stage == .moved {
                guard !isThere, there != nil else { throw TenantMoveError.isElsewhere(tenant, here.peer) }
                isHere = false
            } else if isThere {
                try await source.store.abandonLeaving(tenant, suspends: true)
                try await changes.stop(patience: patience)
                throw TenantMoveError.wasInBoth(tenant, source.name, target.name)
            } else {
                // What was copied would stay where it is.
                if there == nil, here.peer != target.name { throw TenantMoveError.otherMove(tenant, here.peer) }
                try await goBack(here)
            }
        }
        if there != nil { try await target.store.abandonArriving(tenant) }
        _ = try await target.store.clearRemovedQueues(of: tenant, while: Self.always)
        return isHere
    }

    private func goBack(_ move: TenantMoveState) async throws {
        // It is sent for again at once. From now on, another call that goes on has to copy first.
        if move.stage == .detached { try await source.store.reattachTenant(tenant) }
        if move.stage == .stopping { try await source.store.continueLeaving(tenant) }
        try await changes.stop(patience: patience)
        try await source.store.abandonLeaving(tenant)
    }

    /// Whether the new place serves a tenant of this name. If the old one does as well, one of them was restored.
    private func isAtTarget() async throws(PostgresError) -> Bool {
        try await target.store.tenants(named: tenant).first != nil
    }

    /// Undoes a move without the database that the tenant was to come to: that is neither looked at nor changed.
    ///
    /// Until the tenant was detached, it cannot have arrived. After that it may have: whoever calls this says that the
    /// other database is lost.
    package static func abandon(_ tenant: String, at source: Place, patience: Duration) async throws {
        let mover = TenantMover(tenant, from: source, to: source, patience: patience)
        try await mover.checkRights()
        try await mover.alone {
            guard let move = try await source.store.tenantMove(of: tenant) else {
                throw TenantMoveError.notUnderWay(tenant)
            }
            guard move.leaves else { throw TenantMoveError.otherDirection(tenant, move.peer) }
            guard move.stage != .moved else { throw TenantMoveError.isElsewhere(tenant, move.peer) }
            try await mover.goBack(move)
        }
    }

    /// Longer than a worker has a message to a webhook.
    private static let receiverPatience = Duration.seconds(31)

    private static let always = { @Sendable () async throws(PostgresError) -> Bool in true }

    /// Does `body` while no other command moves the tenant.
    private func alone<Success>(_ body: () async throws -> Success) async throws -> Success {
        let result: Result<Success, any Error>
        do {
            try await lock()
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        // A session that is lost has no lock.
        for place in [source, target] { try? await place.store.unlockMove(of: tenant) }
        return try result.get()
    }

    private func lock() async throws {
        for place in [source, target] {
            // The session of a command that was killed lasts until the server has noticed.
            let deadline = ContinuousClock.now + .seconds(15)
            while try await !place.store.lockMove(of: tenant) {
                guard ContinuousClock.now < deadline else { throw TenantMoveError.otherMover(tenant, place.name) }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }

    private func checkRights() async throws {
        for place in [source, target] {
            guard let (may, login, owner) = try await place.store.mayMove() else {
                throw TenantMoveError.noSchema(place.name)
            }
            guard may else { throw TenantMoveError.noRights(place.name, login: login, owner: owner) }
        }
    }

    private func compareDatabases() async throws {
        let (here, there) = (try await source.store.databaseTraits(), try await target.store.databaseTraits())
        guard here.lineage != there.lineage else { throw TenantMoveError.sameDatabase(source.name) }
        guard here.number != there.number else { throw TenantMoveError.sameNumber(Int(here.number)) }
        guard here.schema == there.schema else { throw TenantMoveError.otherSchema }
        guard here.textOrder == there.textOrder else {
            throw TenantMoveError.otherTextOrder(here.textOrder, there.textOrder)
        }
    }

    /// Whether these keys open what is moved, and workers at the new place open what they seal.
    private func checkKeys(_ keys: MasterKeys) async throws {
        for secret in try await source.store.sealedSecrets(of: tenant) {
            do throws(SealError) {
                var opened = try keys.open(secret.sealed, of: secret.owner)
                SecretBytes.wipe(&opened)
            } catch {
                throw TenantMoveError.sealed(secret.name, error)
            }
        }
        let used = try await target.store.secretsByKey()
        guard used.isEmpty || used.contains(where: { $0.name == keys.first.name }) else {
            throw TenantMoveError.unknownKey("\(keys.first.name)", used: used.map { "\($0.name)" })
        }
    }

    private func states() async throws -> (TenantMoveState?, TenantMoveState?) {
        let (here, there) = (
            try await source.store.tenantMove(of: tenant), try await target.store.tenantMove(of: tenant)
        )
        if let here, !here.leaves { throw TenantMoveError.otherDirection(tenant, here.peer) }
        // At the new place it may have been before.
        let arriving = there.flatMap { $0.leaves ? nil : $0 }
        if let here, let arriving, here.id != arriving.id { throw TenantMoveError.otherMove(tenant, here.peer) }
        return (here, arriving)
    }

    /// The move as the old place knows it, also one that has come to its end.
    private func leavingState() async throws -> TenantMoveState {
        guard let state = try await source.store.tenantMove(of: tenant), state.leaves else {
            throw TenantMoveError.notUnderWay(tenant)
        }
        return state
    }

    /// The same of a move that has not come to its end.
    private func unfinishedState() async throws -> TenantMoveState {
        let state = try await leavingState()
        guard state.stage != .moved else { throw TenantMoveError.notUnderWay(tenant) }
        return state
    }

    private func begin() async throws -> TenantMoveState {
        let (here, there) = try await states()
        if let here, here.stage != .moved {
            guard try await !isAtTarget() else { throw TenantMoveError.isInBoth(tenant, source.name, target.name) }
            guard there != nil || here.stage == .copying && here.peer == target.name else {
                throw TenantMoveError.otherMove(tenant, here.peer)
            }
            try await map(here)
            return here
        }
        guard try await source.store.tenants(named: tenant).first != nil else { throw TenantMoveError.noTenant(tenant) }
        guard there == nil else { throw TenantMoveError.leftOver(tenant) }
        guard try await !isAtTarget() else { throw TenantMoveError.isInBoth(tenant, source.name, target.name) }
        try await source.store.beginLeaving(tenant, id: UUID().uuidString, peer: target.name)
        let move = try await unfinishedState()
        do {
            try await map(move)
        } catch {
            // Refused at the new place: nothing was begun.
            if !Self.mayHaveArrived(error) { try? await source.store.abandonLeaving(tenant) }
            throw error
        }
        return move
    }

    /// Gives numbers of the new place to all rows that other rows name.
    private func map(_ move: TenantMoveState) async throws {
        let numbers = try await source.store.numbers(ofMove: tenant)
        try await target.store.beginArriving(tenant, move, peer: source.name, numbers: numbers)
    }

    // MARK: Copying

    /// When so few changes are left, the tenant is stopped for them, …
    private static let fewNotes = 200
    /// … and after so many steps for those that there are: a tenant may change as fast as it is copied.
    private static let mostSteps = 2000

    /// Copies what it has, and then what has changed meanwhile.
    private func copy(_ report: inout Report) async throws {
        try await changes.begin()
        report.rows = 0
        for _ in 0..<Self.mostSteps {
            let queues = try await changes.queuesToNote()
            if queues.isEmpty {
                let notes = try await carry(&report) { .copying(rows: $0.rows ?? 0, copied: $0.copied) }
                guard notes > Self.fewNotes else { break }
            } else {
                try await map(unfinishedState())
                try await changes.note(queues, patience: patience)
                try await copy(queues: queues, &report)
            }
        }
    }

    /// Copies what these queues have and the new place does not.
    private func copy(queues: [Int32], _ report: inout Report) async throws {
        let (progress, before) = (progress, report)
        var copy = try await ContentCopy(from: source.store, to: target.store) { counts in
            progress(.copying(rows: (before.rows ?? 0) + counts.rows, copied: before.copied + counts.copied))
        }
        for queue in try await target.store.queues(ofMove: tenant) where queues.contains(queue.there) {
            try await copy.copy(queue: queue.there, to: queue.here)
        }
        if let rows = before.rows { report.rows = rows + copy.counts.rows }
        report.copied += copy.counts.copied
    }

    /// Carries some of the changes over. Returns how many these were; 0: there were none.
    private func carry(_ report: inout Report, _ step: (Report) -> Step) async throws -> Int {
        let (notes, copied) = try await changes.carry()
        report.copied += copied
        progress(step(report))
        return notes
    }

    // MARK: Stopping and arriving

    /// Whether it may be at the new place although moving it has failed. Then it must not go on at the old one.
    private static func mayHaveArrived(_ error: any Error) -> Bool {
        (error as? PostgresError)?.mayBeDone == true
    }

    /// Stops the tenant, waits until no worker holds anything of it, and takes it out of use. Returns when it was
    /// stopped.
    private func stop() async throws -> ContinuousClock.Instant {
        progress(.stopping)
        // The tenant is sent for meanwhile: a receiver may take long to answer.
        let answered = ContinuousClock.now + Self.receiverPatience
        while try await source.store.holdReports(of: tenant) > 0, ContinuousClock.now < answered {
            try await Task.sleep(for: .milliseconds(50))
        }
        let start = ContinuousClock.now
        let deadline = start + patience
        do {
            while true {
                let held = try await source.store.stopLeaving(tenant)
                if held == 0 {
                    do {
                        try await source.store.detachTenant(tenant)
                        return start
                    } catch {
                        // A claim that had begun before the tenant was stopped was committed after we looked, or
                        // somebody is changing its settings.
                        guard Self.isPassing(error) else { throw error }
                        guard ContinuousClock.now < deadline else { throw try await reason(for: error) }
                    }
                }
                guard ContinuousClock.now < deadline else { throw TenantMoveError.held(tenant, held, patience) }
                try await Task.sleep(for: .milliseconds(50))
            }
        } catch {
            try? await source.store.continueLeaving(tenant)
            throw error
        }
    }

    private static func isPassing(_ error: PostgresError) -> Bool {
        switch error {
        case .raised, .contended: true
        default: false
        }
    }

    /// Names who kept the tenant from being taken out of use for so long.
    private func reason(for error: PostgresError) async throws -> any Error {
        guard case .contended = error else { return error }
        let open = try await source.store.openTransactions()
        let processes = try await source.store.processes(ofTransactions: open)
        return processes.isEmpty ? error : TenantMoveError.openTransaction(tenant, processes.map(Int.init), patience)
    }

    /// Waits for transactions that have found a queue before it was taken out of use: what they add is committed late.
    private func waitForOthers() async throws {
        progress(.waiting)
        let open = try await source.store.openTransactions()
        let deadline = ContinuousClock.now + patience
        while !open.isEmpty {
            let processes = try await source.store.processes(ofTransactions: open)
            if processes.isEmpty { break }
            guard ContinuousClock.now < deadline else {
                throw TenantMoveError.openTransaction(tenant, processes.map(Int.init), patience)
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        let held = try await source.store.held(ofMove: tenant)
        guard held == 0 else { throw TenantMoveError.held(tenant, held, .zero) }
    }

    private func arrive(under masterKeys: MasterKeys) async throws {
        let settings = try await source.store.settings(ofMove: tenant)
        try await target.store.transaction(within: ContentCopy.limit) {
            try await ContentCopy.copyAudit(of: tenant, from: source.store, to: target.store)
            try await target.store.arrive(tenant, with: settings)
            try await target.store.reownSecrets(ofMove: tenant, under: masterKeys)
        }
    }

    /// What is left to do for a tenant that is at its new place already; nil if it is not.
    private func finishArrived() async throws -> Report? {
        let (here, there) = try await states()
        var report = Report()
        if there?.stage == .arrived { return try await finish(&report) }
        guard let here, here.stage == .moved, try await source.store.tenants(named: tenant).isEmpty else { return nil }
        guard here.peer == target.name else { throw TenantMoveError.isElsewhere(tenant, here.peer) }
        // What is left here may be the last that there is of it.
        guard try await isAtTarget() else { throw TenantMoveError.isNowhere(tenant, target.name) }
        guard try await finish(&report).deleted > 0 else { throw TenantMoveError.isElsewhere(tenant, here.peer) }
        return report
    }

    private func finish(_ report: inout Report) async throws -> Report {
        if try await leavingState().stage != .moved { try await source.store.finishLeaving(tenant) }
        await whenArrived()
        try await target.store.finishArriving(tenant)
        // What is deleted now need not be noted; if it is not to be had, that takes longer.
        try? await changes.stop(patience: .seconds(5))
        var deleted = 0
        do throws(PostgresError) {
            _ = try await source.store.clearRemovedQueues(of: tenant, while: Self.always) { _, rows in
                deleted += rows
                progress(.deleting(rows: deleted))
            }
        } catch {
            throw TenantMoveError.contentsStay(tenant, source.name, error)
        }
        report.deleted = deleted
        do {
            try await changes.stop(patience: patience)
        } catch TenantMoveError.tableInUse(_, let table, let processes, _) {
            throw TenantMoveError.triggersStay(tenant, table, processes, patience)
        }
        // A tenant that comes back has left triggers where it was, if they could not be removed in time.
        try? await NotedChanges(tenant: tenant, source: target.store, target: source.store).stop(patience: .seconds(5))
        return report
    }
}
