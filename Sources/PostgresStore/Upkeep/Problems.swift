/// Collects the errors of several steps that do not depend on each other.
package struct Problems {
    private var first: PostgresError?

    package init() {}

    /// Performs a step, and notes its error.
    package mutating func note(_ step: () async throws(PostgresError) -> Void) async {
        do throws(PostgresError) {
            try await step()
        } catch {
            first = first ?? error
        }
    }

    /// Throws the first error.
    package func throwFirst() throws(PostgresError) {
        if let first { throw first }
    }
}
