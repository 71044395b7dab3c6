import Testing

@testable import Workers

@Suite struct `The rules for provider tokens` {
    private func decide(
        minutes: Int?, isKept: Bool = false, isRefused: Bool = false, isReadable: Bool = true
    ) -> TokenRules.Decision {
        TokenRules.decide(age: minutes.map { .seconds($0 * 60) }, isKept: isKept, isRefused: isRefused) { isReadable }
    }

    @Test func `mint one where there is none, and at 45 minutes`() {
        #expect(decide(minutes: nil) == .mint(ifOlderThan: .seconds(2700)))
        #expect(decide(minutes: 44) == .use)
        #expect(decide(minutes: 45) == .mint(ifOlderThan: .seconds(2700)))
    }

    @Test func `replace a refused one at 20 minutes`() {
        #expect(decide(minutes: 19, isRefused: true) == .use)
        #expect(decide(minutes: 20, isRefused: true) == .mint(ifOlderThan: .seconds(1200)))
    }

    @Test func `keep one as APNs asks, but not until APNs refuses it`() {
        #expect(decide(minutes: 54, isKept: true) == .use)
        #expect(decide(minutes: 54, isKept: true, isRefused: true) == .use)
        #expect(decide(minutes: 55, isKept: true) == .mint(ifOlderThan: .seconds(2700)))
        #expect(decide(minutes: 62, isKept: true, isRefused: true) == .mint(ifOlderThan: .seconds(1200)))
    }

    @Test(arguments: [false, true], [false, true])
    func `replace one of the future`(isKept: Bool, isRefused: Bool) {
        for isReadable in [false, true] {
            let decision = decide(minutes: -120, isKept: isKept, isRefused: isRefused, isReadable: isReadable)
            #expect(decision == .mint(ifOlderThan: .seconds(isRefused ? 1200 : 2700)))
        }
        #expect(decide(minutes: -1) == .use, "a small step of the clock")
    }

    @Test func `wait with one that cannot be read`() {
        #expect(decide(minutes: 5, isReadable: false) == .wait(.seconds(900)))
        #expect(decide(minutes: 30, isReadable: false) == .mint(ifOlderThan: .seconds(1200)))
        #expect(decide(minutes: 30, isKept: true, isReadable: false) == .wait(.seconds(1200)))
    }
}
