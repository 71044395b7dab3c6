import Testing

@testable import Workers

@Suite struct `A pattern of queue names` {
    @Test(arguments: [
        "*", "acme/*", "acme/*/production", "*/*/sandbox", "acme/com.acme.shop/production", "*shop/production", "*tion",
        "*/com.Acme-2.*/*", "a*c_me/*/prod*", "**",
    ])
    func `may match a queue that does not exist yet`(pattern: String) {
        #expect(QueuePattern.problem(in: pattern) == nil)
    }

    @Test(arguments: [
        ("acme", "has no *, and is no queue: queue “acme” is not of the form tenant/app/environment"),
        ("acme/com.acme.shop/prod", "has no *, and is no queue: environment “prod” is unknown"),
        ("a/b/production,c/d/production", "has a character that no queue's name has"),
        ("acme/*/production acme/*/sandbox", "has a character that no queue's name has"),
        ("acme/*/prod", "ends in “prod”, and queues end in production or sandbox"),
        ("*shop", "ends in “shop”, and queues end in production or sandbox"),
        ("acme/*/", "ends in “”, and queues end in production or sandbox"),
        ("acme/*/x/production", "has more than two slashes"),
    ])
    func `that can match none has a problem`(pattern: String, problem: String) {
        #expect(QueuePattern.problem(in: pattern)?.hasPrefix(problem) == true)
    }
}
