import Testing

@testable import PostgresStore

@Suite struct `An error of the server` {
    @Test(arguments: ["53100", "53200", "53300", "57014", "58030", "25006", "40001", "40P01"])
    func `passes when nothing has to be changed for the same to go well later`(state: String) {
        #expect(ServerError(task: "retire", state: SQLState(state), message: "").sorted.isPassing)
    }

    @Test(arguments: ["23505", "42601", "42P01", "22023", "P0001", "XX001"])
    func `stays when the same would fail again`(state: String) {
        #expect(!ServerError(task: "retire", state: SQLState(state), message: "").sorted.isPassing)
    }
}
