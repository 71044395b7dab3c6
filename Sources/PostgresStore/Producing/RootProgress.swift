package import FoundationEssentials
package import QueueCore

/// The progress of a send.
package struct RootProgress: Sendable {
    package let total: Int
    /// Recipients without an outcome, as far as the recipients are known.
    package let waiting: Int
    /// The device, if there is only one recipient.
    package let firstDeviceID: Int64?
    package let tally: OutcomeTally
    /// Why there are no recipients; nil if there are some.
    package let whyNobody: String?
    package let isCancelled: Bool
    /// Whether the send is for users at a later time: its recipients are the devices that they have then.
    package let awaitsRecipients: Bool
    /// How many of the waiting recipients wait for the end of their quiet hours, and when the first of them is due.
    package let inQuietHours: Int
    package let releasedAt: Date?

    /// Whether the send is known. A send that was never made, or whose days were dropped, has neither recipients nor a
    /// reason for having none.
    package var isKnown: Bool { total > 0 || whyNobody != nil || awaitsRecipients }
    /// Whether every recipient has an outcome.
    package var isFinished: Bool { !awaitsRecipients && waiting == 0 }
}
