import QueueCore

extension Statement {
    static let addUsersToList = Statement(
        "add_users_to_list",
        #"""
        select added, devices, without_device
        from pushq.add_users_to_list(
          $queue, $list, $users::text[], activity_type => pushq.started_type($push_type, $payload::text::json))
        """#)

    /// Puts the tokens of users into the stage for the tokens of a file.
    static let stageUsers = Statement(
        "stage_users",
        #"""
        with found as materialized (
          select tokens, given, without_device
          from pushq.tokens_of_users(
            $queue, array(select user_key from user_stage),
            push_type => case pushq.message_kind($push_type, $payload::text::json)
                         when 'liveactivity-start' then 'liveactivity-start' else $push_type end,
            activity_type => pushq.started_type($push_type, $payload::text::json))),
        staged as (
          insert into device_stage (line, token, active)
          select 0, decode(t, 'hex'), true from found cross join unnest(tokens) t)
        select given, cardinality(tokens)::int8 as devices, without_device from found
        """#)

    static let addStagedUsers = Statement(
        "add_staged_users", "insert into user_stage select u from unnest($users::text[]) u")

    /// A table that exists only in this transaction and writes no WAL.
    static let makeUserStage = "create temporary table user_stage (user_key text not null) on commit drop"
}

/// The counts of users and devices of a campaign to users.
package struct UserCounts: Equatable, Sendable {
    /// The number of different users.
    package var users = 0
    /// Their active devices of the message's kind.
    package var devices = 0
    /// The users that have no such device.
    package var withoutDevice = 0

    package init(users: Int = 0, devices: Int = 0, withoutDevice: Int = 0) {
        self.users = users
        self.devices = devices
        self.withoutDevice = withoutDevice
    }
}

extension PostgresConnection {
    /// The number of users that one statement loads: a second's work, or less.
    private static let userPart = 20_000

    /// Starts a campaign to the active devices of users of a file, once under its key. Returns its id.
    ///
    /// The users are loaded in parts, each in a transaction of its own that also looks up their devices. A call with
    /// the same users is a repetition, whichever devices they have by then; it loads nothing. If a call fails half-way,
    /// the next one begins again, as with tokens.
    ///
    /// - Parameter progress: called with the number of users read so far. If it throws, nothing is started.
    package func startCampaign(
        _ campaign: CampaignDraft, toUsersIn file: DeviceFile, progress: (Int) throws -> Void = { _ in }
    ) async throws -> (id: Int64, counts: UserCounts) {
        let (message, queue) = (campaign.message, campaign.queue)
        let payload: Parameters = ["push_type": .text(message.pushType.rawValue), "payload": .text(message.payload)]
        var counts = UserCounts()
        let earlier = try await earlier(campaign, by: .earlierUserCampaign) {
            counts = try await stageUsers(from: file, for: message, inQueue: queue, progress: progress)
        }
        if let earlier { return (earlier, counts) }
        let id = try await start(campaign) { list in
            try await readUsers(of: file, progress: progress) { part in
                let row = try await execute(
                    .addUsersToList,
                    ["queue": .queue(queue), "list": .int8(list), "users": .textArray(part)] + payload,
                    within: Self.fileLimit
                ).one()
                counts.users += row.count("added")
                counts.devices += row.count("devices")
                counts.withoutDevice += row.count("without_device")
            }
        }
        return (id, counts)
    }

    /// Puts the tokens of the users of a file into `device_stage`, in the caller's transaction.
    func stageUsers(
        from file: DeviceFile, for message: MessageDraft, inQueue queue: QueueName, progress: (Int) throws -> Void
    ) async throws -> UserCounts {
        try await runScript(Statement.makeDeviceStage)
        try await runScript(Statement.makeUserStage)
        try await readUsers(of: file, progress: progress) { part in
            _ = try await execute(.addStagedUsers, ["users": .textArray(part)], within: Self.fileLimit)
        }
        let parameters: Parameters = [
            "queue": .queue(queue), "push_type": .text(message.pushType.rawValue), "payload": .text(message.payload),
        ]
        let row = try await waitingForCalls { () async throws(PostgresError) in
            try await execute(.stageUsers, parameters, within: Self.fileLimit).one()
        }
        try await runScript("analyze device_stage", within: Self.fileLimit)
        return UserCounts(
            users: row.count("given"), devices: row.count("devices"), withoutDevice: row.count("without_device"))
    }

    private func readUsers(
        of file: DeviceFile, progress: (Int) throws -> Void, _ add: ([String]) async throws -> Void
    ) async throws {
        var reader = UserFileReader(file: file.name)
        var part: [String] = []
        while let piece = try file.next() {
            try reader.read(piece, into: &part)
            try progress(reader.userCount)
            guard part.count >= Self.userPart else { continue }
            try await add(part)
            part.removeAll(keepingCapacity: true)
        }
        try reader.finish(into: &part)
        try progress(reader.userCount)
        guard reader.userCount > 0 else { throw NoUsers(file: file.name) }
        if !part.isEmpty { try await add(part) }
        // Asked once more: storing the last part may have taken a while.
        try progress(reader.userCount)
    }
}

/// A file that should name users has none.
package struct NoUsers: Error, Equatable, CustomStringConvertible {
    package let file: String

    package var description: String { "\(file) has no users: it should have one a line, or a column 'user_key'" }
}
