/// Why a request to the dashboard is refused.
package struct DashboardError: Error, Equatable, Sendable {
    /// The status of the response.
    package let status: Int
    /// What is wrong and what to do, in one sentence.
    package let text: String
}
