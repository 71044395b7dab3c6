import APNs
import PostgresStore
import QueueCore
import Terminal

struct ChannelListCommand: Command {
    static let name = "list"
    static let users = CommandUsers.operatorsOfChannels
    static let summary = "Lists the channels that Apple and the queue know."
    static let discussion = """
        The queue does not know a channel that was created elsewhere. --reconcile adds such channels to the queue, and \
        retires those that Apple does not know. If Apple lists a channel that was retired because Apple did not know \
        it, the channel becomes active again. One that was deleted by hand has no reason and stays retired; \
        pushq.register_channel makes it active. --stored does not ask Apple.
        """
    static let examples = [
        "channel list acme/com.acme.shop/production", "channel list acme/com.acme.shop/production --reconcile",
        "channel list acme/com.acme.shop/production --state retired --stored",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Flag("Update the queue's channels to those of Apple.") var reconcile
    @Flag("List only what the queue knows, without asking Apple.") var stored
    @Option("List only those in this state.") var state: StateName<ChannelState>?
    var rows = RowLimit()
    var management = ChannelManagement()
    var database = DatabaseOptions()

    /// A channel in the list.
    private struct Line {
        let channel: String
        let state: ChannelState
        let stored: StoredChannel?
    }

    func run(_ console: Console) async throws {
        guard !(reconcile && stored) else { throw UsageError("--reconcile and --stored cannot be used together") }
        guard !stored || (management.management == nil && management.ca == nil) else {
            throw UsageError("--management and --ca are not for --stored, which does not ask Apple")
        }
        let atApple: Set<ChannelID>?
        do {
            atApple = stored ? nil : try await channelsAtApple(console)
        } catch let failure as Failure where !reconcile {
            throw Failure("\(failure). What the queue knows is listed with --stored")
        }
        let lines = Self.lines(try await storedChannels(), atApple: atApple).filter { line in
            state.map { $0.state == line.state } ?? true
        }
        console.show(
            rows.first(of: lines),
            columns: [
                Column("channel") { .text($0.channel) },
                Column("state") { .text($0.state.rawValue) },
                Column("policy") { .text($0.stored?.policy.shown) },
                Column("created_at") { .time($0.stored?.createdAt) },
                Column("retired_at") { .time($0.stored?.retiredAt) },
                Column("reason") { .text($0.stored?.retiredReason?.text) },
            ])
    }

    private func storedChannels() async throws -> [StoredChannel] {
        let queue = queue
        return try await database.session { store in try await store.channels(ofQueue: queue) }
    }

    /// Returns the channels that Apple lists. If the command asks for that, it first updates the queue's to them.
    private func channelsAtApple(_ console: Console) async throws -> Set<ChannelID> {
        let (queue, known) = (queue, try await storedChannels())
        let (listed, new) = try await management.withClient(of: self.queue, database, console) { client in
            let (all, unreadable) = try await client.all()
            let listed = Set(all)
            for text in unreadable {
                console.remark("Apple lists “\(text)”, which is no channel's ID; it is left out here")
            }
            var new: [(ChannelID, ChannelPolicy)] = []
            // What Apple did not know becomes active again, but nothing that somebody has deleted.
            let settled = known.filter { $0.retiredAt == nil || $0.retiredReason == nil }
            for channel in listed.subtracting(settled.map(\.channel)) where reconcile {
                // The list may still contain a channel that is gone.
                guard let policy = try await client.policyIfKnown(of: channel) else { continue }
                new.append((channel, policy))
            }
            return (listed, new)
        }
        guard reconcile else { return listed }
        let gone = known.filter { $0.retiredAt == nil && !listed.contains($0.channel) }.map(\.channel)
        try await database.session { store in
            // Retiring comes first, because the queue may have as many channels as it can have, which is Apple's limit.
            try await store.retireChannels(gone, ofQueue: queue, because: .named("ChannelNotRegistered"))
            for (channel, policy) in new { try await store.registerChannel(channel, policy: policy, inQueue: queue) }
        }
        return listed
    }

    /// - Parameter atApple: nil if Apple was not asked.
    private static func lines(_ stored: [StoredChannel], atApple: Set<ChannelID>?) -> [Line] {
        let known = stored.map { channel in
            let isAtApple = atApple?.contains(channel.channel) ?? true
            return Line(
                channel: channel.channel.text, state: ChannelState(stored: channel, isAtApple: isAtApple),
                stored: channel)
        }
        let others = (atApple ?? []).subtracting(stored.map(\.channel)).map(\.text).sorted()
        return known + others.map { Line(channel: $0, state: .unknownHere, stored: nil) }
    }
}
