/// One of the two installations of APNs. Tokens, credentials and channels of one are invalid in the other, so pushq
/// never uses them across environments.
package enum Environment: String, CaseIterable, Sendable {
    /// App Store, TestFlight and ad hoc builds.
    case production
    /// Builds signed with `aps-environment: development`.
    case sandbox
}
