import Foundation
import Glibc
import LocalStack
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `The example of a nightly campaign` {
        private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        private static let path = root.appending(path: "examples/nightly.sh").path
        private static let script = Executable(path: path)

        /// The environment of a crontab: few variables, and cron's own path behind the folder of the tests' pushq.
        private static func crontab(of rig: Rig, payload: String) -> [String: String] {
            [
                "PATH": "\(Executable.folder):/usr/bin:/bin",
                "PUSHQ_DATABASE_URL": rig.postgres.connectionString(database: rig.database),
                "QUEUE": "\(rig.queue)", "PAYLOAD": payload, "FILTER": "tag 'news'",
                // The test may run at any time of the day.
                "SEND_BY": "tomorrow 23:00", "NOT_BEFORE": "today 00:00",
            ]
        }

        @Test func `reaches each device once, though it is started twice at once, killed half-way and started again`()
            async throws
        {
            try await withRig {
                $0.devices = 20_000
                $0.rules = #"{"latency_ms": 30}"#
                $0.simulatorArguments = ["--streams", "25"]
                $0.sql = """
                    insert into pushq.profile (queue_id, device_id, tags)
                    select queue_id, id, array['news'] from pushq.device where (id >> 10) % 4 > 0
                    """
            } _: { rig in
                let wanted = try await rig.number("select count(*) from pushq.device where (id >> 10) % 4 > 0")
                let folder = try TemporaryFolder()
                try folder.write(#"{"aps":{"alert":"Good evening"}}"#, to: "payload.json")
                let crontab = Self.crontab(of: rig, payload: folder.path("payload.json"))
                let twins = try (1...2).map { number in
                    try Self.script.start(
                        [], environment: crontab, output: folder.path("out \(number)"),
                        errors: folder.path("errors \(number)"))
                }
                try rig.startWorker()
                let doomed = try rig.startWorker()
                try await rig.waitUntilEnded(4000)
                // The machine that runs cron goes down, and a worker with it.
                for twin in twins { twin.signal(SIGKILL) }
                await doomed.kill()
                for twin in twins { #expect(await twin.waitForExit() == .signal(SIGKILL)) }
                #expect(try await rig.ended() < wanted, "it is killed half-way")

                let again = try await Self.script.run([], environment: crontab, within: .seconds(120))
                #expect(again.code == 0, "\(again.errors)")
                #expect(again.output.contains(/delivered +15,000/) && wanted == 15_000, "\(again.output)")
                let audit = try await rig.audit()
                // Each push is sent once, except those that the killed worker had in flight.
                audit.expectWhole()
                #expect(audit.sent == wanted)
                #expect(try await rig.number("select count(*) from pushq.campaign") == 1)
            }
        }

        @Test func `is for imported devices, too, and can be tried before, and again under another key`() async throws {
            try await withRig {
                // Devices as an import of a file with tokens and users creates them.
                $0.devices = 20
                $0.sql = """
                    insert into pushq.profile (queue_id, device_id, seen_at)
                    select queue_id, id, now() - interval '60 days' from pushq.device where (id >> 10) % 4 = 0
                    """
            } _: { rig in
                let wanted = try await rig.number("select count(*) from pushq.device where (id >> 10) % 4 > 0")
                let folder = try TemporaryFolder()
                try folder.write(#"{"aps":{"alert":"Good evening"}}"#, to: "payload.json")
                var crontab = Self.crontab(of: rig, payload: folder.path("payload.json"))
                try rig.startWorker()
                crontab["FILTER"] = "tag 'nwes'"
                let tried = try await Self.script.run(["--dry-run"], environment: crontab)
                #expect(tried.code == 1 && tried.errors.contains("the campaign would reach nobody"), "\(tried.errors)")
                #expect(try await rig.number("select count(*) from pushq.campaign") == 0)

                let missed = try await Self.script.run([], environment: crontab, within: .seconds(120))
                #expect(missed.code == 1, "\(missed.errors)")
                #expect(
                    missed.errors.contains("Its key is used: another attempt needs another key"), "\(missed.errors)")
                crontab["FILTER"] = nil
                crontab["KEY"] = "nightly again"
                let again = try await Self.script.run([], environment: crontab, within: .seconds(120))
                #expect(again.code == 0, "\(again.errors)")
                #expect(try await rig.number("select sum(delivered) from pushq.campaign_progress") == wanted)
            }
        }

        @Test func `starts nothing after midnight, if somebody starts it again`() async throws {
            let crontab = [
                "PATH": "\(Executable.folder):/usr/bin:/bin", "QUEUE": "a/b/sandbox", "PAYLOAD": "p.json",
                "NOT_BEFORE": "tomorrow 00:00",
            ]
            let ended = try await Self.script.run([], environment: crontab)
            #expect(ended.code == 1)
            #expect(ended.errors.contains("it is too early for this evening's campaign"), "\(ended.errors)")
        }

        @Test func `finds pushq where the README installs it, although cron does not look there`() async throws {
            let readme = try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
            let folder = try #require(
                readme.firstMatch(of: /sudo install .* dist\/pushq dist\/pushq-admin (\S+)\/\n/)?.output.1)
            // It ends before it would start pushq, which may be installed here. Bash prints what it does.
            let crontab = [
                "PATH": "/usr/bin:/bin", "QUEUE": "a/b/sandbox", "PAYLOAD": "p.json", "NOT_BEFORE": "tomorrow 00:00",
            ]
            let ended = try await Executable(path: "/bin/bash").run(["-x", Self.path], environment: crontab)
            #expect(ended.errors.contains("+ PATH=/usr/bin:/bin:\(folder)\n"), "\(ended.errors)")
        }

        @Test(arguments: [["--dryrun"], ["-v", "--dry-run"], ["--dry-run", "now"], [""], []])
        func `starts pushq only if it knows its command line`(arguments: [String]) async throws {
            let folder = try TemporaryFolder()
            // Stands in for pushq, and tells that it was called.
            let pushq = try folder.write("#!/bin/sh\necho called\n", to: "pushq")
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: pushq)
            let crontab = [
                "PATH": "\(folder.path("")):/usr/bin:/bin", "QUEUE": "a/b/sandbox", "PAYLOAD": "p.json",
                "NOT_BEFORE": "today 00:00",
            ]
            let ended = try await Self.script.run(arguments, environment: crontab)
            if arguments.isEmpty {
                #expect(ended.code == 0 && ended.output == "called\n", "\(ended.errors)")
            } else {
                #expect(ended.code == 2 && ended.output.isEmpty, "\(ended.output)")
                #expect(ended.errors == "usage: nightly.sh [--dry-run]\n")
            }
        }

        @Test(arguments: ["QUEUE", "PAYLOAD"])
        func `says what is missing in the crontab`(variable: String) async throws {
            var crontab = ["PATH": "\(Executable.folder):/usr/bin:/bin", "QUEUE": "a/b/sandbox", "PAYLOAD": "p.json"]
            crontab[variable] = nil
            let ended = try await Self.script.run([], environment: crontab)
            #expect(ended.code != 0)
            #expect(ended.errors.contains("\(variable): set it to the"), "\(ended.errors)")
        }
    }
}
