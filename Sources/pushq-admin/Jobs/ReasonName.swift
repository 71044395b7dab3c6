import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// A reason by the name that APNs, or pushq, gives it, as an argument.
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
    /// Of options that were parsed. Throws if there is no time between the two.
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
