import Glibc
import LocalStack
import TestSupport

/// A primary that is lost, and its standby, which replaces it.
extension Scenario {
    static var failover: [Scenario] {
        [
            failover("failover", .synchronous) { trial in
                try await trial.begin()
                try await trial.rig.postgres.stop(.immediate)
                try await takeOver(trial)
            },
            failover("failover-other-host-first", .synchronous) { trial in
                for _ in 0..<2 { try trial.rig.startWorker(database: trial.rig.urlWithStandbyFirst) }
                try await trial.begin(workers: 0)
                try await trial.rig.postgres.stop(.immediate)
                try await takeOver(trial)
            },
            failover("old-primary-returns", .synchronous) { trial in
                try await trial.begin()
                // The primary accepts connections and does not answer, like a machine without a network.
                trial.rig.postgres.signal(SIGSTOP)
                try await takeOver(trial)
                // The old primary does not know that it was replaced, accepts writes, and comes first in the list of
                // hosts.
                trial.rig.postgres.signal(SIGCONT)
                try trial.rig.startWorker()
                for _ in 0..<(trial.isShort ? 3 : 10) {
                    try await trial.pause(between: 0.3, and: 1)
                    try await trial.rig.run(
                        """
                        select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and application_name like 'pushq work%'
                        """)
                    try await trial.keepBusy()
                }
                guard let newcomer = trial.rig.workers.last else { return }
                try await newcomer.says("old_primary", within: .seconds(60))
                try await newcomer.says("started", within: .seconds(60))
            },
            failover("old-primary-goes-on", .asynchronous) { trial in
                try await trial.begin()
                try await trial.rig.waitUntilFinished()
                try await trial.pause(.seconds(1))
                trial.rig.postgres.signal(SIGSTOP)
                try await trial.rig.promoteStandby()
                // A statement may take ten seconds. So the sessions that workers use all the time are given up, and
                // others stay open at the old primary.
                try await trial.pause(.milliseconds(11_500))
                trial.rig.postgres.signal(SIGCONT)
                trial.faultIsOver()
                for worker in trial.rig.workers { try await worker.says("store_back", within: .seconds(60)) }
                for _ in 0..<(trial.isShort ? 5 : 10) {
                    try await trial.startCampaign()
                    try await trial.pause(between: 1, and: 3)
                }
            },
            failover("standby-stops", .synchronous) { trial in
                try await trial.begin()
                // Meanwhile no commit is confirmed.
                trial.rig.standby?.signal(SIGSTOP)
                try await trial.pause(between: 1, and: 2)
                trial.rig.standby?.signal(SIGCONT)
                trial.faultIsOver()
                try await trial.startCampaign()
            },
            failover("primary-cut-off", .synchronous, canCutOffPrimary: true) { trial in
                try await trial.begin()
                // The primary runs and accepts writes, but reaches neither its standby nor any client.
                try await trial.rig.cutOffStandby()
                trial.rig.cutOffPrimary()
                try await takeOver(trial)
            },
            failover("primary-cut-off-asynchronous", .asynchronous, canCutOffPrimary: true) { trial in
                try await trial.begin()
                try await trial.rig.cutOffStandby()
                let begun = Trial.now
                try await trial.pause(between: 0.5, and: 1)
                trial.rig.cutOffPrimary()
                trial.noteLag(since: begun, forgetting: [])
                try await takeOver(trial)
            },
            failover("failover-asynchronous", .asynchronous) { trial in
                try await trial.begin()
                try await trial.rig.cutOffStandby()
                let begun = Trial.now
                let forgotten = try await send(40, trial)
                try await trial.rig.waitUntilEnded(trial.rig.settings.devices / 2)
                try await trial.rig.postgres.stop(.immediate)
                trial.noteLag(since: begun, forgetting: forgotten)
                try await takeOver(trial)
                let sent = try await send(200, trial)
                guard sent.isDisjoint(with: forgotten) else {
                    throw NeverHappened(description: "an identifier was handed out twice")
                }
            },
        ]
    }

    private static func failover(
        _ name: String, _ standby: Rig.Standby, canCutOffPrimary: Bool = false,
        disturb: @escaping @Sendable (Trial) async throws -> Void
    ) -> Scenario {
        Scenario(
            name: name,
            adjust: { settings, _ in
                settings.standby = standby
                settings.canCutOffPrimary = canCutOffPrimary
            },
            ownServer: { reaper in try await PrivatePostgres.start(reaper: reaper) }, disturb: disturb)
    }

    /// Promotes the standby, and waits until the workers use it.
    private static func takeOver(_ trial: Trial) async throws {
        try await trial.rig.promoteStandby()
        trial.faultIsOver()
        for worker in trial.rig.workers { try await worker.says("store_back", within: .seconds(60)) }
        try await trial.startCampaign()
    }

    /// Sends `count` single pushes, and waits until they have ended.
    /// - Returns: their roots.
    private static func send(_ count: Int, _ trial: Trial) async throws -> Set<Int64> {
        var roots: Set<Int64> = []
        for number in 1...count {
            roots.insert(
                try await trial.rig.number(
                    """
                    select pushq.send('\(trial.rig.queue)', '{"aps":{"alert":"single \(number)"}}', urgent => true,
                                      tokens => array[encode(sha256(int8send(\(1_000_000 + number))), 'hex')])
                    """))
        }
        let list = roots.map { "\($0)" }.joined(separator: ", ")
        let ended = "select sum(delivered + unknown) from pushq.result where root_id in (\(list))"
        try await wait(
            for: "single pushes to arrive", within: .seconds(60), { try await trial.rig.number(ended) },
            until: { $0 >= count })
        return roots
    }
}
