import QueueCore

extension Statement {
    static let newList = Statement(
        "new_list",
        #"""
        select pushq.new_list($queue, case pushq.message_kind($push_type, $payload::text::json)
                                      when 'liveactivity-start' then 'liveactivity-start' else $push_type end)
        """#)

    static let addStageToList = Statement(
        "add_stage_to_list",
        "select pushq.add_tokens_to_list($queue, $list, array(select token from device_stage where active))")
}

extension PostgresConnection {
    /// The number of tokens of a list that one transaction loads: a second's work, or less.
    private static let listPart = 50_000

    /// Starts a campaign to the tokens of a file, once under its key. Returns its id.
    ///
    /// The tokens are loaded in parts, each in a transaction of its own, so that neither memory nor a transaction grows
    /// with the file. Unknown tokens become devices as they are loaded. Nothing is sent before the campaign is started,
    /// after the last part. If a call fails half-way, the next one begins again. A repetition of a started campaign
    /// loads nothing: see ``earlier(_:by:stage:)``. A broken line is an error that names it.
    ///
    /// - Parameter progress: called with the number of tokens read so far. If it throws, nothing is started.
    package func startCampaign(
        _ campaign: CampaignDraft, toDevicesIn file: DeviceFile, progress: (Int) throws -> Void = { _ in }
    ) async throws -> Int64 {
        var reader = DeviceFileReader(file: file.name, for: .sending)
        let earlier = try await earlier(campaign, by: .earlierTokenCampaign) {
            _ = try await stageDevices(from: file, by: &reader, progress: progress)
        }
        if let earlier { return earlier }
        return try await start(campaign) { list in
            var isComplete = false
            while !isComplete {
                isComplete = try await transaction(within: Self.fileLimit) {
                    let isAtEnd = try await stageDevices(
                        from: file, by: &reader, atMost: Self.listPart, progress: progress)
                    _ = try await waitingForCalls { () async throws(PostgresError) in
                        try await execute(
                            .addStageToList, ["queue": .queue(campaign.queue), "list": .int8(list)],
                            within: Self.fileLimit)
                    }
                    return isAtEnd
                }
            }
            // Asked once more: storing the last part may have taken a while.
            try progress(reader.deviceCount)
        }
    }

    /// A new list for a campaign with this message.
    func newList(for message: MessageDraft, inQueue queue: QueueName) async throws(PostgresError) -> Int64 {
        let parameters: Parameters = [
            "queue": .queue(queue), "push_type": .text(message.pushType.rawValue), "payload": .text(message.payload),
        ]
        return try await execute(.newList, parameters).one().int8("new_list")
    }
}
