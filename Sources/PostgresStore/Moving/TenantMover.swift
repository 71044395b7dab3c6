import Cryptography
import FoundationEssentials
import Transport

/// Moves a tenant from one database of an installation to another (functions/move_tenant.sql).
///
/// Both databases store the state of the move. So another call continues it, wherever this one was interrupted; until
/// the tenant has arrived, it compares what was copied. ``abandon()`` undoes the move until then.
///
/// 1. *Copying.* Contents are copied while workers send for the tenant. Changes are noted and carried over
/// (``NotedChanges``) until few are left.
/// 2. *Stopping.* The tenant is suspended, and the jobs that workers hold come to their end.
/// 3. *Detached.* Its settings are taken out of their tables. The move waits for transactions that found a queue of the
/// tenant before. Then no session can change anything. Changes noted since are carried over, and nothing else is read.
/// 4. *Arrived.* Its settings are inserted at the new place in one transaction. Workers there begin.
/// 5. *Moved.* The old place records where the tenant is, and what is left of the tenant there is deleted.
package struct TenantMover {
    /// What a move is doing.
    package enum Step: Sendable {
        case copying(rows: Int, copied: Int)
        case stopping
        case waiting
        case carrying(copied: Int)
        case deleting(rows: Int)
    }

    /// What was done.
    package struct Report: Sendable {
        /// Rows, except settings, that were compared with the new place and copied if they were missing; nil if the
        /// tenant had arrived already.
        package var rows: Int?
        /// Rows that were copied, including rows that were copied again.
        package var copied = 0
        /// Rows among them that were copied while the tenant was stopped.
        package var copiedWhileStopped = 0
        /// How long the tenant was stopped; nil if it had arrived already.
        package var pause: Duration?
        package var deleted = 0
    }

    /// A database and its name for messages, without a password.
    package struct Place {
        let store: PostgresConnection
        let name: String

        package init(_ store: PostgresConnection, name: String) {
            self.store = store
            self.name = name
        }
    }

    /// Longer than the time limit of a webhook message.
    private static let receiverPatience = Duration.seconds(31)
    /// The tenant is stopped when this few notes are left, …
    private static let fewNotes = 200
    /// … or after this many steps, however many are left: a tenant may change as fast as it is copied.
    private static let maximumSteps = 2000
    static let always = { @Sendable () async throws(PostgresError) -> Bool in true }

    let source: Place
    let target: Place
    let tenant: String
    let patience: Duration
    private let progress: (Step) -> Void
    private let whenArrived: () async -> Void
    var changes: NotedChanges { NotedChanges(tenant: tenant, source: source.store, target: target.store) }

    /// - Parameters:
    ///   - patience: how long to wait for other transactions; also how long the tenant may be stopped until held jobs
    ///     have ended. After that it continues at its old place.
    ///   - whenArrived: called when the tenant is at the new place, before the rest at the old one is deleted, and
    ///     again by each later call that continues the move. Its failures do not stop the move.
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

    /// Moves the tenant, or continues a move.
    /// - Parameter masterKeys: the keys of the fleet at the new place. They also open the secrets of the old one.
    /// - Throws: ``TenantMoveError``; `PostgresError`. In both cases another call can continue.
    package func run(under masterKeys: MasterKeys) async throws -> Report {
        try await checkRights()
        try await compareDatabases()
        return try await alone { try await move(under: masterKeys) }
    }

    private func move(under masterKeys: MasterKeys) async throws -> Report {
        var report = Report()
        if let report = try await finishArrived() { return report }
        try await checkKeys(masterKeys)
        try await continueCopying(try await begin())
        do {
            try await copy(&report)
            let wasStopped = try await stop()
            try await transfer(under: masterKeys, &report)
            report.pause = wasStopped.duration(to: .now)
        } catch let error where !Self.mayHaveArrived(error) {
            await continueHere()
            throw error
        }
        return try await finish(&report)
    }

    /// Lets the tenant be served here again if the move was interrupted while it was stopped. All is compared once
    /// more: the changes that were carried over are not noted any more, and the new place may have been restored since.
    private func continueCopying(_ move: TenantMoveState) async throws {
        if move.stage == .detached { try await source.store.reattachTenant(tenant) }
        if move.stage == .stopping { try await source.store.continueLeaving(tenant) }
    }

    /// Moves the tenant to the new place, with all that has changed.
    private func transfer(under masterKeys: MasterKeys, _ report: inout Report) async throws {
        try await waitForOthers()
        try await source.store.takeLateSettings(of: tenant)
        let before = report.copied
        try await map(unfinishedState())
        // Copies queues that were created at the last moment.
        let queues = try await changes.queuesToNote()
        if !queues.isEmpty { try await copy(queues: queues, &report) }
        while try await carry(&report, { .carrying(copied: $0.copied - before) }) > 0 {}
        report.copiedWhileStopped = report.copied - before
        try await arrive(under: masterKeys)
    }

    /// Lets the tenant continue at its old place. The next call compares what was copied, so nothing need be noted
    /// until then.
    private func continueHere() async {
        guard let stage = try? await unfinishedState().stage, stage != .stopping else { return }
        if stage == .detached { try? await source.store.reattachTenant(tenant) }
        try? await changes.stop(patience: .seconds(5))
    }

    /// Runs `body` while no other command moves the tenant.
    func alone<Success>(_ body: () async throws -> Success) async throws -> Success {
        let result: Result<Success, any Error>
        do {
            try await lock()
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        // A lost session has released its lock.
        for place in [source, target] { try? await place.store.unlockMove(of: tenant) }
        return try result.get()
    }

    private func lock() async throws {
        for place in [source, target] {
            // The session of a killed command lasts until the server notices.
            let deadline = ContinuousClock.now + .seconds(15)
            while try await !place.store.lockMove(of: tenant) {
                guard ContinuousClock.now < deadline else { throw TenantMoveError.otherMover(tenant, place.name) }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }

    func states() async throws -> (TenantMoveState?, TenantMoveState?) {
        let (here, there) = (
            try await source.store.tenantMove(of: tenant), try await target.store.tenantMove(of: tenant)
        )
        if let here, !here.leaves { throw TenantMoveError.otherDirection(tenant, here.peer) }
        // The tenant may have been at the new place before. A move away from there does not count.
        let arriving = there.flatMap { $0.leaves ? nil : $0 }
        if let here, let arriving, here.id != arriving.id { throw TenantMoveError.otherMove(tenant, here.peer) }
        return (here, arriving)
    }

    /// The move as the old place knows it, even if it has finished.
    private func leavingState() async throws -> TenantMoveState {
        guard let state = try await source.store.tenantMove(of: tenant), state.leaves else {
            throw TenantMoveError.notUnderWay(tenant)
        }
        return state
    }

    /// The move as the old place knows it, unless it has finished.
    func unfinishedState() async throws -> TenantMoveState {
        let state = try await leavingState()
        guard state.stage != .moved else { throw TenantMoveError.notUnderWay(tenant) }
        return state
    }

    private func begin() async throws -> TenantMoveState {
        let (here, there) = try await states()
        if let here, here.stage != .moved {
            guard try await !isAtTarget() else { throw TenantMoveError.isInBoth(tenant, source.name, target.name) }
            // If the new place knows nothing of the move, it was restored since.
            guard there != nil || here.peer == target.name else { throw TenantMoveError.otherMove(tenant, here.peer) }
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
            // The new place refused, so nothing was begun.
            if !Self.mayHaveArrived(error) { try? await source.store.abandonLeaving(tenant) }
            throw error
        }
        return move
    }

    /// Assigns numbers of the new place to all rows that other rows refer to.
    private func map(_ move: TenantMoveState) async throws {
        let numbers = try await source.store.numbers(ofMove: tenant)
        try await target.store.beginArriving(tenant, move, peer: source.name, numbers: numbers)
    }

    // MARK: Copying

    /// Copies the tenant's contents, then what has changed meanwhile.
    private func copy(_ report: inout Report) async throws {
        try await changes.begin()
        report.rows = 0
        for _ in 0..<Self.maximumSteps {
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

    /// Copies the contents of these queues that the new place lacks.
    private func copy(queues: [Int32], _ report: inout Report) async throws {
        let (progress, before) = (progress, report)
        var copy = try await ContentCopy(from: source.store, to: target.store) { counts in
            progress(.copying(rows: (before.rows ?? 0) + counts.rows, copied: before.copied + counts.copied))
        }
        for queue in try await target.store.queues(ofMove: tenant) where queues.contains(queue.there) {
            try await copy.copy(queue: queue.there, to: queue.here)
        }
        // Else the changes would be carried over by plans for empty tables.
        try await target.store.analyzeGrownTables()
        if let rows = before.rows { report.rows = rows + copy.counts.rows }
        report.copied += copy.counts.copied
    }

    /// Carries some of the changes over. Returns their number; 0 if there were none.
    private func carry(_ report: inout Report, _ step: (Report) -> Step) async throws -> Int {
        let (notes, copied) = try await changes.carry()
        report.copied += copied
        progress(step(report))
        return notes
    }

    // MARK: Stopping and arriving

    /// Whether the tenant may be at the new place although the move has failed. Then it must not continue at the old
    /// one.
    private static func mayHaveArrived(_ error: any Error) -> Bool {
        (error as? PostgresError)?.mayBeDone == true
    }

    /// Stops the tenant, waits until workers hold nothing of it, and detaches it. Returns when it was stopped.
    private func stop() async throws -> ContinuousClock.Instant {
        progress(.stopping)
        try await waitForReceiver()
        let start = ContinuousClock.now
        do {
            try await detach(until: start + patience)
        } catch {
            try? await source.store.continueLeaving(tenant)
            throw error
        }
        return start
    }

    /// Holds the tenant's reports back, and waits for those that are under way. Workers send for the tenant meanwhile,
    /// because a receiver may take long to answer.
    private func waitForReceiver() async throws {
        let answered = ContinuousClock.now + Self.receiverPatience
        while try await source.store.holdReports(of: tenant) > 0, ContinuousClock.now < answered {
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Stops the tenant, and detaches it as soon as workers hold nothing of it and no other session changes it.
    private func detach(until deadline: ContinuousClock.Instant) async throws {
        while true {
            let held = try await source.store.stopLeaving(tenant)
            var hindrance: PostgresError?
            if held == 0 {
                hindrance = try await detachNow()
                if hindrance == nil { return }
            }
            guard ContinuousClock.now < deadline else {
                if let hindrance { throw try await reason(for: hindrance) }
                throw TenantMoveError.held(tenant, held, patience)
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Detaches the tenant. Returns the error if another try may succeed: a claim that began before the tenant was
    /// stopped was committed after the count, or another session is changing the tenant's settings.
    private func detachNow() async throws(PostgresError) -> PostgresError? {
        do {
            try await source.store.detachTenant(tenant)
            return nil
        } catch {
            guard Self.mayStillDetach(after: error) else { throw error }
            return error
        }
    }

    private static func mayStillDetach(after error: PostgresError) -> Bool {
        switch error {
        case .raised, .contended: true
        default: false
        }
    }

    /// Names the processes that kept the tenant from being detached for so long.
    private func reason(for error: PostgresError) async throws -> any Error {
        guard case .contended = error else { return error }
        let open = try await source.store.openTransactions()
        let processes = try await source.store.processes(ofTransactions: open)
        return processes.isEmpty ? error : TenantMoveError.openTransaction(tenant, processes.map(Int.init), patience)
    }

    /// Waits for transactions that found a queue before the tenant was detached: what they add is committed late.
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

    /// Does what is left for a tenant that is already at its new place; returns nil if it is not.
    private func finishArrived() async throws -> Report? {
        let (here, there) = try await states()
        var report = Report()
        if there?.stage == .arrived {
            if here?.stage == .detached || here?.stage == .moved { return try await finish(&report) }
            // One of the databases was restored since.
            if try await isAtTarget() {
                let error = try await errorOfUnknownMove()
                if error == .isElsewhere(tenant, target.name) { try await target.store.finishArriving(tenant) }
                throw error
            }
            try await target.store.finishArriving(tenant)
            return nil
        }
        guard let here, here.stage == .moved, try await source.store.tenants(named: tenant).isEmpty else { return nil }
        guard here.peer == target.name else { throw TenantMoveError.isElsewhere(tenant, here.peer) }
        // What is left here may be the last copy of the tenant.
        guard try await isAtTarget() else {
            throw TenantMoveError.isNowhere(tenant, target.name, hasCopy: there != nil)
        }
        guard try await finish(&report).deleted > 0 else { throw TenantMoveError.isElsewhere(tenant, here.peer) }
        return report
    }

    private func finish(_ report: inout Report) async throws -> Report {
        if try await leavingState().stage != .moved { try await source.store.finishLeaving(tenant) }
        await whenArrived()
        try await target.store.finishArriving(tenant)
        // Rows that are deleted now need not be noted. If the triggers cannot be removed in time, the deletion takes
        // longer.
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
        // A tenant that comes back may have left triggers at its other place, if they could not be removed in time.
        try? await NotedChanges(tenant: tenant, source: target.store, target: source.store).stop(patience: .seconds(5))
        return report
    }
}
