import HTTP1
import OperatorViews
import Testing

@Suite struct `Answers that many get` {
    private let start = ContinuousClock.now

    private func name(_ step: SharedAnswers<Int>.Step) -> String {
        switch step {
        case .answer(let response): "answer \(String(decoding: response.body, as: UTF8.self))"
        case .ask(let number): "ask \(number)"
        case .wait: "wait"
        case .refuse: "refuse"
        }
    }

    @Test func `are asked for once, and once a second`() {
        var answers = SharedAnswers<Int>()
        #expect(name(answers.begin("a", 1, now: start)) == "ask 1")
        #expect(name(answers.begin("a", 2, now: start)) == "wait")
        #expect(name(answers.begin("b", 3, now: start)) == "ask 2")
        #expect(answers.finish("a", 1, with: Response(text: "x"), now: start) == [1, 2])
        #expect(name(answers.begin("a", 4, now: start + .milliseconds(999))) == "answer x")
        #expect(name(answers.begin("b", 5, now: start + .seconds(20))) == "wait", "it is still being asked")
        #expect(name(answers.begin("a", 6, now: start + .seconds(1))) == "ask 3")
    }

    @Test func `are asked for anew after a change, also if they are still to come`() {
        var answers = SharedAnswers<Int>()
        _ = answers.begin("a", 1, now: start)
        _ = answers.finish("a", 1, with: Response(text: "x"), now: start)
        _ = answers.begin("b", 2, now: start)
        answers.forgetAll()
        #expect(name(answers.begin("a", 3, now: start)) == "ask 3")
        #expect(name(answers.begin("b", 4, now: start)) == "ask 4")
        #expect(answers.finish("b", 2, with: Response(text: "old"), now: start) == [2], "who waits is not forgotten")
        #expect(name(answers.begin("b", 5, now: start)) == "wait", "the old answer is not kept")
        #expect(answers.finish("b", 4, with: Response(text: "new"), now: start) == [4, 5])
        #expect(name(answers.begin("b", 6, now: start)) == "answer new")
    }

    @Test func `are bounded in number`() {
        var answers = SharedAnswers<Int>()
        for index in 1...64 { #expect(name(answers.begin("\(index)", index, now: start)) == "ask \(index)") }
        #expect(name(answers.begin("more", 0, now: start)) == "refuse")
        answers.forgetAll()
        #expect(name(answers.begin("more", 0, now: start)) == "refuse", "all are still being asked")
        _ = answers.finish("1", 1, with: Response(text: ""), now: start)
        #expect(name(answers.begin("more", 0, now: start + .seconds(2))) == "ask 65", "old ones are forgotten")
    }
}
