/// What fails of several steps of which none depends on the one before it.
struct Problems {
    private var first: PostgresError?

    /// Does a step, and notes what fails.
    mutating func note(_ step: () async throws(PostgresError) -> Void) async {
        do throws(PostgresError) {
            try await step()
        } catch {
            first = first ?? error
        }
    }

    /// Throws what failed first.
    func throwFirst() throws(PostgresError) {
        if let first { throw first }
    }
}
