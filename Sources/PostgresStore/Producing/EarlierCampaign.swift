import QueueCore

extension Statement {
    static let earlierTokenCampaign = earlierListCampaign(
        "earlier_token_campaign", members: "select distinct token as member from device_stage where active")

    static let earlierUserCampaign = earlierListCampaign(
        "earlier_user_campaign",
        members: "select distinct convert_to('user ' || user_key, 'UTF8') as member from user_stage")

    /// Computes the digest of `pushq.set_digest` (migrations/functions/lists.sql) without an array of all members.
    private static func earlierListCampaign(_ name: String, members: String) -> Statement {
        Statement(
            name,
            #"""
            select pushq.earlier_list_campaign(
                     $queue, $key, $payload::json, l.members, l.digest, push_type => $push_type,
                     priority => $priority, collapse_id => $collapse_id, at_most_once => $at_most_once,
                     urgent => $urgent, local_time => $local_time, if_passed => $if_passed, catch_up => $catch_up,
                     default_zone => $default_zone, variants => $variants::json, holdout => $holdout,
                     quiet_hours => $quiet_hours) as campaign
            from (
              select count(*) as members,
                     coalesce(bit_xor(('x' || encode(sha256(m.member), 'hex'))::bit(256)),
                              repeat('0', 256)::bit(256)) as digest
              from (\#(members)) m) l
            """#)
    }

    static let abandonList = Statement("abandon_list", "select pushq.abandon_list($queue, $list)::text")
}

extension PostgresConnection {
    /// Starts a campaign with a list that `load` fills. If `load` fails or the start is refused, the list is abandoned:
    /// no other session knows it, and it would count for the tenant's quota for a day.
    func start(_ campaign: CampaignDraft, loading load: (_ list: Int64) async throws -> Void) async throws -> Int64 {
        let list = try await newList(for: campaign.message, inQueue: campaign.queue)
        do {
            try await load(list)
            return try await startCampaign(campaign, toList: list)
        } catch {
            // If the database cannot be reached, upkeep finds the list a day later.
            _ = try? await execute(.abandonList, ["queue": .queue(campaign.queue), "list": .int8(list)])
            throw error
        }
    }

    /// Returns the campaign that was started under this key for what `stage` puts into `device_stage` or `user_stage`;
    /// nil if there is none. Loads only temporary rows, so a quota cannot stop a repetition.
    func earlier(
        _ campaign: CampaignDraft, by statement: Statement, stage: () async throws -> Void
    ) async throws -> Int64? {
        guard try await self.campaign(campaign.key, ofQueue: campaign.queue) != nil else { return nil }
        return try await transaction(within: Self.fileLimit) {
            try await stage()
            return try await waitingForCalls { () async throws(PostgresError) in
                try await execute(statement, campaign.identity).one().optionalInt8("campaign")
            }
        }
    }
}
