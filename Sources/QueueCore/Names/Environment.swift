/// One of the two installations of APNs. Tokens, credentials and channels of one mean nothing to the other,
/// so nothing in pushq ever crosses from one to the other.
package enum Environment: String, CaseIterable, Sendable {
    /// App Store, TestFlight and ad hoc builds.
    case production
    /// Builds signed with `aps-environment: development`.
    case sandbox
}
