import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A device that is registered by hand` {
    @Test(arguments: ["Mars/Phobos", "europe/vienna"])
    func `keeps its time zone if the new one is unknown, which is an error`(zone: String) async throws {
        try await Shop.open { shop in
            let known = try await shop.admin("device", "register", Shop.queue, "abcd", "--time-zone", "Europe/Vienna")
            #expect(known.code == 0)
            let refused = try await shop.admin("device", "register", Shop.queue, "abcd", "--time-zone", zone)
            expectFailure(refused, code: 1, saying: "the time zone “\(zone)” is unknown", "such as Europe/Berlin")
            #expect(try await shop.admin("device", "show", Shop.queue, "abcd").output.contains("Europe/Vienna"))
        }
    }

    @Test func `loses each value that is given as an empty text`() async throws {
        try await Shop.open { shop in
            func register(_ values: String...) async throws -> String {
                let options = ["--locale", "--time-zone", "--app-version", "--installation", "--tag"]
                let ended = try await Executable.admin.run(
                    ["device", "register", Shop.queue, "abcd"] + zip(options, values).flatMap { [$0, $1] },
                    environment: shop.environment)
                #expect(ended.code == 0, "\(ended.errors)")
                return try await shop.admin("device", "show", Shop.queue, "abcd").output
            }
            let values = ["de-AT", "Europe/Vienna", "4.12.1", "i7", "vip"]
            let full = try await register(values[0], values[1], values[2], values[3], values[4])
            for value in values { #expect(full.contains(value), "\(full)") }
            let empty = try await register("", "", "", "", "")
            for value in values { #expect(!empty.contains(value), "\(empty)") }
        }
    }

    @Test func `has its number as a text in JSON, as everywhere`() async throws {
        try await Shop.open { shop in
            let ended = try await shop.admin("device", "register", Shop.queue, "abcd", "--json")
            #expect(ended.output.contains(/"device":"[0-9]+"/), "\(ended.output)")
        }
    }
}
