import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `A campaign in shares by command` {
        @Test
        func `sends each device the payload of its share once, though a worker is killed and the command repeated`()
            async throws
        {
            try await withRig {
                $0.devices = 20_000
                $0.rules = #"{"latency_ms": 20}"#
            } _: { rig in
                let doomed = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let file = FileManager.default.temporaryDirectory.appending(path: "other-\(UUID().uuidString).json")
                try Data(#"{"aps":{"alert":"Half price"}}"#.utf8).write(to: file)
                defer { try? FileManager.default.removeItem(at: file) }
                let words = [
                    "campaign", "\(rig.queue)", "--key", "sale", "--payload", "-", "--audience", "all",
                    "--variant", "half=\(file.path):30%", "--holdout", "10%",
                ]
                let payload = #"{"aps":{"alert":"Everything must go"}}"#
                let first = try await rig.pushq(words, input: payload)
                #expect(first.code == 0, "\(first.errors)")
                try await rig.waitUntilEnded(3000)
                await doomed.kill()
                let second = try await rig.pushq(words, input: payload)
                #expect(second.output == first.output)
                try await rig.waitUntilFinished()

                // Each arrival has the payload of the jobs that its device was in, and each device was in one.
                let audit = try await rig.audit()
                // How many pushes were repeated depends on the machine. The tests of lost workers bound this number.
                #expect(audit.findings == [])
                let shown = try await rig.admin(["campaign", "show", "\(rig.queue)", "sale", "--json"])
                let campaign = try JSONDecoder().decode(Shown.self, from: Data(shown.output.utf8))
                #expect(campaign.shares.map(\.share) == ["payload", "half", "holdout"])
                #expect(campaign.shares.map(\.ofDevices) == [0.6, 0.3, 0.1])
                #expect(campaign.shares.map(\.total).reduce(0, +) == 20_000)
                #expect(campaign.heldOut == campaign.shares[2].total)
                #expect(campaign.shares.dropLast().allSatisfy { $0.delivered == $0.total && $0.waiting == 0 })
                // For 20,000 devices, five standard deviations are 325, 324 and 212.
                for (share, wanted) in zip(campaign.shares, [(12_000, 350), (6000, 330), (2000, 220)]) {
                    #expect(abs(share.total - wanted.0) < wanted.1, "\(share)")
                }
                let inTwo = try await rig.number(
                    "select count(*) from (select d from pushq.body b, unnest(b.device_ids) d where slice = 0 group by d having count(*) > 1) t"
                )
                #expect(inTwo == 0)
                let other = try await rig.pushq(words.dropLast() + ["20%"], input: payload)
                #expect(other.code != 0 && other.errors.contains("key “sale” was used for another campaign"))
            }
        }

        private struct Shown: Decodable {
            let heldOut: Int
            let shares: [Share]

            enum CodingKeys: String, CodingKey {
                case shares
                case heldOut = "held_out"
            }

            struct Share: Decodable {
                let share: String
                let ofDevices: Double
                let total: Int
                let waiting: Int
                let delivered: Int

                enum CodingKeys: String, CodingKey {
                    case share, total, waiting, delivered
                    case ofDevices = "of_devices"
                }
            }
        }

        @Test func `is shown by a dry run, and refused where its shares cannot be`() async throws {
            try await withRig {
                $0.devices = 1000
            } _: { rig in
                let file = FileManager.default.temporaryDirectory.appending(path: "b-\(UUID().uuidString).json")
                try Data(#"{"aps":{"alert":"{{name}}, half price"}}"#.utf8).write(to: file)
                defer { try? FileManager.default.removeItem(at: file) }
                func campaign(_ words: [String]) async throws -> Executable.Ended {
                    try await rig.pushq(
                        ["campaign", "\(rig.queue)", "--key", "k", "--payload", "-", "--audience", "all"] + words,
                        input: #"{"aps":{"alert":"x"}}"#)
                }
                let shown = try await campaign(["--variant", "b=\(file.path):25%", "--holdout", "10%", "--dry-run"])
                let shares = try [
                    #require(shown.output.firstMatch(of: /share payload +65%: (\d+)\n/)?.1, "\(shown.errors)"),
                    #require(shown.output.firstMatch(of: /share b +25%: (\d+)\n/)?.1),
                    #require(shown.output.firstMatch(of: /share holdout +10%: (\d+)\n/)?.1),
                ]
                #expect(shares.compactMap { Int($0) }.reduce(0, +) == 1000)
                // The output shows for each share how many payloads do not fit.
                #expect(
                    shown.output.split(separator: "\n").contains {
                        $0.split(separator: " ").prefix(4) == ["b", "default", shares[1], shares[1]]
                    }, "\(shown.output)")
                #expect(shown.output.contains(/lacking attributes +(\d+)\n/), "\(shown.output)")
                #expect(try await rig.number("select count(*) from pushq.campaign") == 0)
                for (words, problem) in [
                    (["--variant", "b=\(file.path)"], "is not NAME=FILE:SHARE, such as b=other.json:20%"),
                    (
                        ["--variant", "b=\(file.path):90%", "--holdout", "10%"],
                        "take 100% together, and leave nobody for --payload"
                    ),
                    (
                        ["--variant", "b=\(file.path):9%", "--variant", "b=\(file.path):9%"],
                        "two variants are called b"
                    ),
                    (["--variant", "payload=\(file.path):9%"], "payload and holdout are taken"),
                    (["--variant", "b=/no/such/file:9%"], "/no/such/file"), (["--variant", "b=-:9%"], "only one of"),
                    (["--variant", "b=\(file.path):0%"], "needs a share between 0% and 100%"),
                ] {
                    let refused = try await campaign(words)
                    #expect(refused.code != 0 && refused.errors.contains(problem), "\(words): \(refused.errors)")
                }
                #expect(try await rig.number("select count(*) from pushq.campaign") == 0)
            }
        }
    }
}
