import Glibc
import LocalStack
import TestSupport
import Transport

/// Workers that are killed, or connections that are cut, exactly at one statement or its answer.
extension Scenario {
    static var statements: [Scenario] {
        [
            Scenario(name: "kill-in-statement") { trial in
                try await trial.begin(workers: 1)
                for name in ["claim", "flush", "end_jobs"] {
                    for isAnswer in [false, true] {
                        let nth = Int.random(in: 1...5, using: &trial.random)
                        try await spring(StatementTrap(name, isAnswer: isAnswer, nth: nth), kills: true, trial)
                    }
                }
            },
            Scenario(name: "lost-answer", expectation: .clean) { trial in
                try await trial.begin(workers: 1)
                for name in ["claim", "flush", "end_jobs"] {
                    let nth = Int.random(in: 1...5, using: &trial.random)
                    try await spring(StatementTrap(name, isAnswer: true, nth: nth), kills: false, trial)
                }
            },
        ]
    }

    /// Starts a worker whose connections go through a trap, and waits until the trap has sprung.
    private static func spring(_ trap: StatementTrap, kills: Bool, _ trial: Trial) async throws {
        let victim = Locked<WorkerProcess?>(nil)
        let proxy = try await DatabaseProxy(to: trial.rig.postgres) { message in
            guard trap.meets(message) else { return .pass }
            if kills { victim.withLock { _ = $0?.signal(SIGKILL) } }
            return .cut
        }
        let worker = try trial.rig.startWorker(database: proxy.connectionString(database: trial.rig.database))
        victim.withLock { $0 = worker }
        try await wait(for: "the \(trap.what) of \(worker.name)", within: .seconds(60)) {
            try await trial.keepBusy()
            return trap.hasSprung
        }
        trial.faultIsOver()
        guard kills else {
            // The worker finishes its jobs over the proxy.
            try await trial.pause(.seconds(1))
            guard await worker.drain() == .code(0) else {
                throw NeverHappened(description: "\(worker.name) did not drain")
            }
            return proxy.close()
        }
        _ = await worker.process.waitForExit()
        proxy.close()
    }
}

/// Springs once, at the nth time that a statement is sent to the server, or that its answer comes.
final class StatementTrap: Sendable {
    private struct State {
        var left: Int
        var hasSprung = false
        /// For each connection: the statements that were sent and not answered yet, grouped by sync.
        var open: [Int: [[String]]] = [:]
    }

    private let name: String
    private let isAnswer: Bool
    private let state: Locked<State>

    init(_ name: String, isAnswer: Bool, nth: Int) {
        self.name = "pushq_\(name)_"
        self.isAnswer = isAnswer
        state = Locked(State(left: nth))
    }

    var what: String { "\(isAnswer ? "answer to" : "statement") \(name)" }

    var hasSprung: Bool { state.withLock { $0.hasSprung } }

    /// Whether the trap springs at this message. It must see every message, in the order of each direction.
    func meets(_ message: DatabaseProxy.Message) -> Bool {
        state.withLock { state in
            let isMeant = message.isFromClient ? noteSent(message, &state) : noteAnswered(message, &state)
            guard isMeant, !state.hasSprung else { return false }
            state.left -= 1
            state.hasSprung = state.left == 0
            return state.hasSprung
        }
    }

    private func noteSent(_ message: DatabaseProxy.Message, _ state: inout State) -> Bool {
        if message.type == "S" { state.open[message.connection, default: [[]]].append([]) }
        guard let statement = message.statementName else { return false }
        var groups = state.open[message.connection] ?? [[]]
        groups[groups.count - 1].append(statement)
        state.open[message.connection] = groups
        return !isAnswer && statement.hasPrefix(name)
    }

    /// Notes a message of the server. A `Z` ends the answer to the statements of one sync.
    private func noteAnswered(_ message: DatabaseProxy.Message, _ state: inout State) -> Bool {
        guard message.type == "Z", let groups = state.open[message.connection], groups.count > 1 else { return false }
        state.open[message.connection] = Array(groups.dropFirst())
        return isAnswer && groups[0].contains { $0.hasPrefix(name) }
    }
}
