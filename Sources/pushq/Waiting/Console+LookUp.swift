import PostgresStore
import Terminal

extension Console {
    /// Looks something up that was accepted before. If the database is away, or refuses the call for the moment, only
    /// says so: a failure of the command would make its caller repeat what was accepted.
    func lookUp<Value>(
        _ accepted: String, _ look: () async throws(PostgresError) -> Value?
    ) async throws(PostgresError) -> Value? {
        do throws(PostgresError) {
            return try await look()
        } catch {
            guard error.isTransient else { throw error }
            remark("\(accepted) was accepted, but could not be looked up: \(error)")
            return nil
        }
    }
}
