import Foundation
import Glibc
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

extension `Real processes` {
    @Suite struct `Another master key` {
        @Test func `takes over while workers with either in front send, and nothing is lost or paused`() async throws {
            let new = try MasterKey.random()
            try await withRig {
                $0.devices = 3000
            } _: { rig in
                let old = rig.masterKeys.first
                let before = "\(old.hexadecimal) \(new.hexadecimal)"
                let after = "\(new.hexadecimal),\(old.hexadecimal)"
                // The first worker mints the provider token, sealed under the old key.
                try rig.startWorker(masterKeys: before)
                try await rig.startCampaign(key: "first")
                try await rig.waitUntilEnded(300)
                try rig.startWorker(masterKeys: after)

                let counted = try await rig.admin(["credential", "rotate-master", "--dry-run"], masterKeys: after)
                #expect(counted.code == 0, "\(counted.errors)")
                #expect(
                    counted.output
                        == "of 1 credential and 1 provider token, 1 credential and 1 provider token under \(old.name) instead of "
                        + "\(new.name)\n")
                let rotated = try await rig.admin(["credential", "rotate-master"], masterKeys: after)
                #expect(rotated.code == 0, "\(rotated.errors)")
                #expect(
                    rotated.output
                        == "sealed 1 credential and 1 provider token under master key \(new.name); all of 1 credential and 1 provider "
                        + "token are sealed under \(new.name)\n")
                try await rig.startCampaign(key: "second")
                try await rig.waitUntilFinished()

                // From here on, the old key is not available.
                for worker in rig.workers { #expect(await worker.drain() == .code(0)) }
                let last = try rig.startWorker(masterKeys: new.hexadecimal)
                try await rig.startCampaign(key: "third")
                try await rig.waitUntilFinished()
                #expect(try await rig.number("select sum(delivered) from pushq.campaign_progress") == 9000)
                #expect(try await rig.number("select count(*) from pushq.queue where paused_at is not null") == 0)
                #expect(try await rig.number("select count(*) from pushq.provider_token") == 1)
                #expect(
                    !rig.workers.contains {
                        $0.log.contains("cannot be used") || $0.log.contains("a new one was minted")
                    })
                #expect(await last.drain() == .code(0))
                try await rig.audit().expectWhole()
            }
        }

        @Test func `is named where it is missing, by the worker's log and by commands`() async throws {
            let other = try MasterKey.random()
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let old = rig.masterKeys.first
                let worker = try rig.startWorker(masterKeys: other.hexadecimal)
                try await rig.startCampaign()
                let problem = "it was sealed under master key \(old.name), and this process has only \(other.name)"
                try await worker.says("the credential of \(rig.queue) cannot be used: \(problem)")
                let checked = try await rig.admin(
                    ["credential", "check", rig.queue.tenant, "simulator"], masterKeys: other.hexadecimal)
                #expect(checked.code == 1)
                #expect(checked.errors.contains(problem))
                let rotated = try await rig.admin(["credential", "rotate-master"], masterKeys: other.hexadecimal)
                #expect(rotated.code == 1)
                #expect(rotated.errors.contains("1 secret could not be opened: credential acme/simulator: \(problem)"))
                for text in [worker.log, checked.errors, rotated.errors] {
                    #expect(!text.contains(old.hexadecimal) && !text.contains(other.hexadecimal))
                }
            }
        }
    }

    @Suite struct `A lost master key` {
        @Test func `does not stop a webhook that gets a new secret, because the former one is not kept`() async throws {
            let new = try MasterKey.random()
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let tenant = rig.queue.tenant
                let set = ["webhook", "set", tenant, "--url", "https://push.acme.example/"]
                #expect(try await rig.admin(set).code == 0)
                let renew = ["webhook", "set", tenant, "--new-secret"]
                let former = "select count(*) from pushq.webhook where former_sealed is not null"
                let reason =
                    "the former one is sealed under master key \(rig.masterKeys.first.name), which this command does not have"

                let asked = try await rig.admin(renew, masterKeys: new.hexadecimal)
                #expect(asked.code != 0, "the receiver knows no other secret")
                #expect(
                    asked.errors.contains("ends the secret of the webhook of \(tenant) at once: \(reason)"),
                    "\(asked.errors)")
                let renewed = try await rig.admin(renew + ["--yes"], masterKeys: new.hexadecimal)
                #expect(renewed.code == 0 && renewed.output.contains("its secret, which is not shown again"))
                #expect(
                    renewed.errors.contains("messages are signed with the new secret only: \(reason)"),
                    "\(renewed.errors)")
                #expect(try await rig.number(former) == 0)

                let again = try await rig.admin(renew, masterKeys: new.hexadecimal)
                #expect(again.code == 0 && again.errors.isEmpty, "\(again.errors)")
                #expect(try await rig.number(former) == 1, "this one can be opened")
            }
        }
    }

    @Suite struct `Secrets of a process` {
        /// Kills a process in a folder where it may leave a core dump. Returns what it leaves.
        private func end(
            _ command: String, in folder: TemporaryFolder, _ environment: [String: String], when isReady: String
        ) async throws -> String {
            let script = """
                ulimit -c unlimited 2>/dev/null; cd '\(folder.path("."))'; \(command) >out 2>err & pid=$!
                for i in $(seq 600); do \(isReady) && break; sleep 0.1; done
                kill -SYS $pid; wait $pid; ls core* 2>/dev/null; true
                """
            let ended = try await Executable(path: "/bin/bash").run(
                ["-c", script], environment: environment, within: .seconds(120))
            return ended.output + ended.errors
        }

        @Test func `are in no core dump of a worker: there is none`() async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let environment = [
                    "PUSHQ_DATABASE_URL": rig.postgres.connectionString(database: rig.database),
                    "PUSHQ_MASTER_KEY": rig.masterKeys.first.hexadecimal,
                ]
                let folder = try TemporaryFolder()
                let other = try await end("sleep 100", in: folder, environment, when: "sleep 0.5")
                // If the system stores core dumps elsewhere, or none, only bash's message tells.
                let leavesDumps = other.contains("core dumped")
                let worker = try await end(
                    "'\(Executable.folder)/pushq' work", in: try TemporaryFolder(), environment,
                    when: "grep -q started err")
                #expect(worker.contains("Bad system call"), "\(worker)")
                #expect(!worker.contains("core dumped") && !worker.contains(/(?m)^core/), "\(worker)")
                if !leavesDumps { print("this system leaves no core dump of anything: \(other)") }
            }
        }

        @Test func `are neither in its arguments nor in its log, and nobody of the same user may read its environment`()
            async throws
        {
            try await withRig {
                $0.devices = 10
            } _: { rig in
                let worker = try rig.startWorker()
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                let process = "/proc/\(worker.process.processID)"
                // The kernel makes root the owner of these files if a process may not be dumped (proc(5)).
                let owner =
                    try FileManager.default.attributesOfItem(atPath: "\(process)/environ")[.ownerAccountID] as? NSNumber
                #expect(owner == 0)
                let arguments = try String(contentsOfFile: "\(process)/cmdline", encoding: .utf8)
                let key = rig.masterKeys.first.hexadecimal
                let pem = try String(contentsOfFile: rig.simulator.ready.signingKey, encoding: .utf8).split(
                    separator: "\n")[1]
                for secret in [key, String(pem)] {
                    #expect(!arguments.contains(secret) && !worker.log.contains(secret))
                }
            }
        }

        @Test(.enabled(if: geteuid() == 0, "only root may read the memory of a worker"))
        func `are not left in a worker's memory as the text that it has read a key from`() async throws {
            try await withRig {
                $0.devices = 10
            } _: { rig in
                let worker = try rig.startWorker()
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                let pem = try String(contentsOfFile: rig.simulator.ready.signingKey, encoding: .utf8).split(
                    separator: "\n")[1]
                let id = worker.process.processID
                #expect(try Self.memory(of: id, has: rig.database), "what it knows is found")
                #expect(try !Self.memory(of: id, has: String(pem)))
            }
        }

        /// Whether the writable memory of a process contains a text.
        private static func memory(of id: Int32, has text: String) throws -> Bool {
            let memory = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/\(id)/mem"))
            let wanted = Data(text.utf8)
            for line in try String(contentsOfFile: "/proc/\(id)/maps", encoding: .utf8).split(separator: "\n") {
                guard let match = line.firstMatch(of: /^([0-9a-f]+)-([0-9a-f]+) rw/),
                    let start = UInt64(match.output.1, radix: 16),
                    let end = UInt64(match.output.2, radix: 16)
                else { continue }
                try memory.seek(toOffset: start)
                if let bytes = try? memory.read(upToCount: Int(end - start)), bytes.range(of: wanted) != nil {
                    return true
                }
            }
            return false
        }

        @Test func `are not in the environment of what the demo starts`() async throws {
            let key = String(repeating: "7d", count: 32)
            let folder = try TemporaryFolder()
            let demo = try Executable.pushq.start(
                ["demo", "--devices", "200000"], environment: ["PUSHQ_MASTER_KEY": key, "PGPASSWORD": "sesame"],
                output: folder.path("out"),
                errors: folder.path("err"))
            var seen: [String: String] = [:]
            var ofSimulator = ""
            let own = Self.commandLine(of: Int(demo.processID))
            try await eventually("that a server and a simulator run", within: .seconds(60)) {
                // A child that does not run a program of its own yet is a copy of the demo.
                for (id, name) in Self.descendants(of: Int(demo.processID)) where Self.commandLine(of: id) != own {
                    seen[name] = (try? String(contentsOfFile: "/proc/\(id)/environ", encoding: .isoLatin1)) ?? ""
                    if Self.commandLine(of: id)?.contains("\0simulate\0") == true { ofSimulator = seen[name]! }
                }
                return !ofSimulator.isEmpty && seen.keys.contains("postgres") && seen.keys.contains("pushq")
            }
            demo.signal(SIGINT)
            _ = await demo.waitForExit(within: .seconds(30))
            #expect(seen.values.contains { !$0.isEmpty })
            #expect(!ofSimulator.contains("PUSHQ_MASTER_KEY"), "not that of the demo itself either")
            for (name, environment) in seen {
                #expect(!environment.contains(key) && !environment.contains("sesame"), "\(name)")
            }
        }

        private static func commandLine(of id: Int) -> String? {
            try? String(contentsOfFile: "/proc/\(id)/cmdline", encoding: .isoLatin1)
        }

        /// The process IDs and names of all descendants of a process.
        private static func descendants(of root: Int) -> [(Int, String)] {
            var parents: [Int: (parent: Int, name: String)] = [:]
            for entry in (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? [] {
                guard let id = Int(entry),
                    let status = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8),
                    let name = status.firstMatch(of: /Name:\t(.+)/)?.output.1,
                    let parent = status.firstMatch(of: /PPid:\t(\d+)/).flatMap({ Int($0.output.1) })
                else { continue }
                parents[id] = (parent, String(name))
            }
            return parents.filter { entry in
                var id = entry.value.parent
                while id > 1, id != root { id = parents[id]?.parent ?? 0 }
                return id == root
            }.map { ($0.key, $0.value.name) }
        }
    }
}
