import Foundation
import Glibc
import LocalStack
import Synchronization
import TestSupport

/// Causes every known kind of fault in a running pushq, and then counts what recipients received. `scripts/chaos`
/// starts it, and docs/chaos.md gives the results.
@main
enum Main {
    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        do {
            let options = try Options(Array(ProcessInfo.processInfo.arguments.dropFirst()))
            switch options.mode {
            case .list: for scenario in Scenario.all { say(scenario.name) }
            case .soak(let minutes): try await Soak(minutes: minutes, folder: options.folder).run()
            case .chaos: exit(try await chaos(options) ? 0 : 1)
            }
        } catch {
            complain("\(error)")
            exit(error is UsageError ? 2 : 1)
        }
    }

    /// How many scenarios have been taken. Whoever is done takes the next one: some take a second, others a minute.
    private static let takenCount = Atomic(0)

    /// Runs the requested scenarios. Returns whether all succeeded.
    private static func chaos(_ options: Options) async throws -> Bool {
        let chosen = Scenario.all.filter { scenario in
            options.only.isEmpty ? !(options.isShort && scenario.isLong) : options.only.contains(scenario.name)
        }
        guard !chosen.isEmpty else { throw UsageError("no scenario is called so; see: scripts/chaos --list") }
        say("seed \(options.seed), leases of \(options.isShort ? 3 : 15) s")
        let reaper = try Reaper()
        let numbered = chosen.enumerated().map { (scenario: $1, seed: options.seed &+ UInt64($0)) }
        let (measured, others) = (numbered.filter(\.scenario.isMeasured), numbered.filter { !$0.scenario.isMeasured })
        var failed = try await withThrowingTaskGroup(of: [String].self) { group in
            for _ in 0..<options.jobs {
                let postgres = try await PrivatePostgres.start(reaper: reaper)
                group.addTask {
                    var failed: [String] = []
                    while true {
                        let number = takenCount.add(1, ordering: .relaxed).oldValue
                        guard number < others.count else { break }
                        let (scenario, seed) = others[number]
                        if await !run(scenario, on: postgres, seed: seed, isShort: options.isShort) {
                            failed.append(scenario.name)
                        }
                    }
                    return failed
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        for (scenario, seed) in measured
        where await !run(scenario, on: postgres, seed: seed, isShort: options.isShort) {
            failed.append(scenario.name)
        }
        await reaper.end()
        if !failed.isEmpty { complain("failed: \(failed.joined(separator: ", "))") }
        return failed.isEmpty
    }

    private static func run(
        _ scenario: Scenario, on postgres: PrivatePostgres, seed: UInt64, isShort: Bool
    ) async -> Bool {
        do {
            let audit = try await scenario.run(on: postgres, seed: seed, isShort: isShort)
            let seconds = audit.recovered.formatted(.number.precision(.fractionLength(1)).grouping(.never))
            say(
                "\(scenario.name): sent \(audit.sent) recorded \(audit.recorded) lost \(audit.lost) "
                    + "repeated \(audit.repeated) bound \(audit.bound) recovered \(seconds) s")
            for finding in audit.findings { complain("  \(finding)") }
            let isLate = audit.recovered > audit.recoveryLimit
            if isLate { complain("  it may take \(Int(audit.recoveryLimit)) s to recover") }
            return audit.lost == 0 && audit.repeated <= audit.bound && !isLate
        } catch is NotPossibleHere {
            say("\(scenario.name): not possible here, it needs \(scenario.needs)")
            return true
        } catch {
            say("\(scenario.name): did not end: \(error)")
            return false
        }
    }

    private static func complain(_ line: String) {
        FileHandle.standardError.write(Data("chaos: \(line)\n".utf8))
    }
}

/// Prints a line at once, even into a pipe.
func say(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

/// The options of the command line.
struct Options {
    enum Mode {
        case chaos
        case list
        case soak(minutes: Double)
    }

    var mode = Mode.chaos
    var isShort = false
    var only: Set<String> = []
    /// How many scenarios run at a time, each on its own PostgreSQL.
    var jobs = 1
    var seed = UInt64.random(in: 0..<1_000_000)
    /// The folder in which a soak writes its plot.
    var folder = FileManager.default.currentDirectoryPath

    init(_ arguments: [String]) throws {
        var rest = arguments[...]
        func value(_ option: String) throws -> String {
            guard let value = rest.popFirst() else { throw UsageError("\(option) lacks its value") }
            return value
        }
        while let option = rest.popFirst() {
            switch option {
            case "--short": isShort = true
            case "--list": mode = .list
            case "--only": only.insert(try value(option))
            case "--seed":
                guard let number = UInt64(try value(option)) else { throw UsageError("--seed takes a number") }
                seed = number
            case "--jobs":
                guard let number = Int(try value(option)), (1...8).contains(number) else {
                    throw UsageError("--jobs takes a number, 1 to 8")
                }
                jobs = number
            case "--soak":
                guard let minutes = Double(try value(option)), minutes > 0 else {
                    throw UsageError("--soak takes a number of minutes")
                }
                mode = .soak(minutes: minutes)
            case "--folder": folder = try value(option)
            default:
                throw UsageError(
                    "\(option) is unknown; known are --short, --only NAME, --seed N, --jobs N, --list, --soak MINUTES")
            }
        }
    }
}

/// An error in the command line.
struct UsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
