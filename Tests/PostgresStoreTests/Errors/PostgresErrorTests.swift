import Testing

@testable import PostgresStore

@Suite struct `An error of the server` {
    @Test func `is one line that controls no terminal, whatever a producer wrote`() {
        let message = "unknown time zone \"Europe/\nVienna\u{1B}[2J\" \r\n"
        let error = PostgresError(ServerError(task: "send", state: "PQ400", message: message))
        #expect("\(error)" == #"unknown time zone "Europe/ Vienna [2J""#)
    }

    @Test(arguments: ["53100", "53200", "53300", "57014", "58030", "25006", "40001", "40P01"])
    func `is transient when nothing has to be changed for the same to go well later`(state: String) {
        #expect(PostgresError(ServerError(task: "end_jobs", state: SQLState(state), message: "")).isTransient)
    }

    @Test func `is transient when history lacks the day, which a worker makes`() {
        let missing = ServerError(task: "end_jobs", state: .checkViolation, message: "no partition of relation")
        #expect(PostgresError(missing).isTransient)
        #expect("\(PostgresError(missing))".contains("no worker has made it"))
        let check = ServerError(
            task: "end_jobs", state: .checkViolation, message: "", constraint: "job_recipients_range")
        #expect(!PostgresError(check).isTransient)
    }

    @Test(arguments: ["23505", "42601", "42P01", "22023", "P0001", "XX001"])
    func `stays when the same would fail again`(state: String) {
        #expect(!PostgresError(ServerError(task: "end_jobs", state: SQLState(state), message: "")).isTransient)
    }
}
