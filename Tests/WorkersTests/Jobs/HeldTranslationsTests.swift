import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `Translations of held jobs` {
    private static let longest = CampaignMessage.maximumBytes

    /// A message with a translation of this length; without a translation if that is 0.
    private static func message(_ bytes: Int) -> PersonalMessage {
        let translations = bytes == 0 ? [] : [[UInt8](repeating: UInt8(ascii: " "), count: bytes)]
        return PersonalMessage(
            versions: [Array("{}".utf8)] + translations, attributes: [], hasPlaceholders: true, raisesBadge: false)
    }

    @Test func `count once for each message, until its last job is held no more`() {
        let queue = JobFixture.queue()
        let jobs = HeldJobs()
        func hold(_ message: PersonalMessage?) -> HeldJob {
            jobs.insert(of: queue) { slot in
                JobFixture.job(
                    recipients: 1, slot: slot,
                    personal: message.map {
                        PersonalPayloads(of: $0, recipients: [10], profiles: [], versionOfProfile: [], values: [])
                    })
            }
        }
        let (one, other) = (Self.message(1000), Self.message(500))
        let held = [hold(one), hold(nil), hold(one), hold(other), hold(Self.message(0))]
        #expect(jobs.translations.bytes == 1500)
        jobs.remove(held[0])
        #expect(jobs.translations.bytes == 1500)
        jobs.remove(held[3])
        #expect(jobs.translations.bytes == 1000)
        for index in [1, 2, 4] { jobs.remove(held[index]) }
        #expect(jobs.translations.bytes == 0)
    }

    @Test func `take more than their length if they have many placeholders`() {
        let translation = #"{"aps":{"alert":"\#(String(repeating: "{{a}}", count: 100))"}}"#
        let message = PersonalMessage(
            versions: [Array("{}".utf8), Array(translation.utf8)], attributes: ["a"], hasPlaceholders: true,
            raisesBadge: false)
        #expect(message.translationBytes > 2 * translation.utf8.count)
    }

    @Test func `of one claim are 4 MB at most, and no more than there is room for`() {
        var held = HeldTranslations()
        let limit = 20 * Self.longest
        #expect(held.room(within: limit) == 4 << 20)
        #expect(held.room(of: 1, within: limit) == 4 << 20)
        let messages = (0..<19).map { _ in Self.message(Self.longest) }
        for message in messages { held.add(message, of: 1) }
        #expect(held.room(within: limit) == Self.longest)
        held.remove(messages[0])
        #expect(held.room(within: limit) == 2 * Self.longest)
        // One claim may bring more than its length, because of placeholders.
        for message in messages[0...0] + [Self.message(3 * Self.longest)] { held.add(message, of: 1) }
        #expect(held.room(within: limit) == 0)
        #expect(held.room(of: 2, within: limit) == 0)
    }

    @Test func `of one tenant leave room for others`() {
        var held = HeldTranslations()
        var messages: [PersonalMessage] = []
        let limit = 10 * Self.longest
        /// Holds as many of the longest messages as the tenant may. Returns their number.
        func fill(_ tenant: Int32) -> Int {
            var count = 0
            while held.room(of: tenant, within: limit) >= Self.longest {
                messages.append(Self.message(Self.longest))
                held.add(messages[messages.count - 1], of: tenant)
                count += 1
            }
            return count
        }
        #expect(fill(1) == 8)
        #expect(fill(2) == 1)
        #expect(fill(3) == 1)
        #expect(fill(4) == 0)
        held.remove(messages[0])
        #expect(fill(1) == 0, "the first has more than its part")
        #expect(fill(4) == 1)
    }
}
