import HTTP1
import OperatorViews
import Testing

@Suite struct `Answers that many get` {
    private let start = ContinuousClock.now

    private func name(_ step: SharedAnswers<Int>.Step) -> String {
        switch step {
        case .answer(let response): "answer \(String(decoding: response.body, as: UTF8.self))"
        case .ask: "ask"
        case .wait: "wait"
        case .refuse: "refuse"
        }
    }

    @Test func `are asked for once, and once a second`() {
        var answers = SharedAnswers<Int>()
        #expect(name(answers.begin("a", 1, now: start)) == "ask")
        #expect(name(answers.begin("a", 2, now: start)) == "wait")
        #expect(name(answers.begin("b", 3, now: start)) == "ask")
        #expect(answers.finish("a", with: Response(text: "x"), now: start) == [1, 2])
        #expect(name(answers.begin("a", 4, now: start + .milliseconds(999))) == "answer x")
        #expect(name(answers.begin("b", 5, now: start + .seconds(20))) == "wait", "it is still being asked")
        #expect(name(answers.begin("a", 6, now: start + .seconds(1))) == "ask")
    }

    @Test func `are asked anew after a change`() {
        var answers = SharedAnswers<Int>()
        _ = answers.begin("a", 1, now: start)
        _ = answers.finish("a", with: Response(text: "x"), now: start)
        _ = answers.begin("b", 2, now: start)
        answers.forgetKnown()
        #expect(name(answers.begin("a", 3, now: start)) == "ask")
        #expect(answers.finish("b", with: Response(text: "y"), now: start) == [2], "who waits is not forgotten")
    }

    @Test func `are bounded in number`() {
        var answers = SharedAnswers<Int>()
        for index in 0..<64 { #expect(name(answers.begin("\(index)", index, now: start)) == "ask") }
        #expect(name(answers.begin("more", 0, now: start)) == "refuse")
        _ = answers.finish("0", with: Response(text: ""), now: start)
        #expect(name(answers.begin("more", 0, now: start + .seconds(2))) == "ask", "old ones are forgotten")
    }
}
