import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// An argument that names a reason, as APNs or pushq writes it.
struct ReasonName: ArgumentValue, Sendable {
    let reason: Reason

    static let placeholder = "REASON"

    static func parse(_ text: String) throws(InvalidValue) -> ReasonName {
        guard let reason = Reason.all.first(where: { $0.text == text }) else {
            throw InvalidValue("is not a reason of APNs, such as InternalServerError; docs/apns.md lists them")
        }
        return ReasonName(reason: reason)
    }
}

extension JobFilter {
    /// Builds a filter from parsed options. Throws if there is no time between `since` and `until`.
    static func of(
        campaign: String?, reason: ReasonName?, since: Moment?, until: Moment?
    ) throws -> JobFilter {
        let (since, until) = try Moment.span(from: since, to: until)
        var filter = JobFilter()
        filter.campaign = campaign
        filter.reason = reason?.reason
        filter.since = since
        filter.until = until
        return filter
    }
}
