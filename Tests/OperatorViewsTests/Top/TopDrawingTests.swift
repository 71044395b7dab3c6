import QueueCore
import Terminal
import Testing
import Transport

@testable import OperatorViews
@testable import PostgresStore

@Suite struct `The live screen` {
    private func lines(
        _ state: TopState = TopState(), _ figures: TopFigures = TopSample.figures, columns: Int = 130, rows: Int = 24
    ) -> [String] {
        TopDrawing(state, figures, size: .init(columns: columns, rows: rows), every: .seconds(2)).lines.map(\.text)
    }

    @Test func `shows sums, and a line for each queue, with what waits longest first`() {
        let lines = lines()
        #expect(lines[0] == "pushq-admin top  09:03:44 UTC  every 2s")
        #expect(lines[1] == "queues 4 (1 paused)  waiting 1,204,519+  oldest 1h 06m  sent 1,240/s  in flight 820")
        #expect(
            lines[2]
                == "workers 2 (1 silent)  connections 8  streams 820 of 8,000  answers within 20ms, 99% within 100ms")
        #expect(
            lines[4...8].map { $0.split(separator: " ").joined(separator: " ") } == [
                "queue state waiting oldest sent/s limit in flight median p99 refused% reason",
                "acme/com.acme.news/production paused 12 1h 06m 0.0 - 0 - - - -",
                "acme/com.acme.shop/production sending 1,204,500+ 4m 10s 1,240 2,000 820 20ms 100ms 1.0 Unregistered",
                "acme/com.acme.radio/production outage 7 3.0s 0.0 - 0 - - - -",
                "acme/com.acme.idle/production idle 0 - 0.0 - 0 - - - -",
            ])
        #expect(lines.last == "q quit  1 queues  2 workers  3 answers  s by oldest  / filter  p pause  ? help")
        #expect(lines.count == 24)
    }

    @Test func `shows workers, and the answers by reason over all queues`() {
        var state = TopState()
        state.view = .workers
        let workers = lines(state).map { $0.split(separator: " ").joined(separator: " ") }
        #expect(
            workers[4]
                == "worker state in flight streams connections held jobs held recipients unreachable in outage seen version serves"
        )
        #expect(workers[5] == "db-1:311 sending 410 4,000 4 12 6,000 0 1 2.0s 0.1.0 *")
        #expect(workers[6].hasPrefix("db-2:77 silent"))
        state.view = .answers
        let answers = lines(state).map { $0.split(separator: " ").joined(separator: " ") }
        #expect(
            answers[4...8] == [
                "answer a second % queues", "Unregistered 11.0 0.9 1", "BadDeviceToken 1.0 0.1 1",
                "accepted 1,238.0 99.0 1",
                "unanswered 0.6 0.0 1",
            ])
    }

    @Test func `says why there is nothing to show`() {
        var figures = TopSample.figures
        figures.workers = nil
        figures.loads = QueueLoads()
        #expect(lines(TopState(), figures)[2] == "nothing was sent in the last seconds")
        #expect(lines(TopState(), figures)[4] == "there are no queues")
        #expect(lines(TopState(matching: "shop"), figures)[0].hasSuffix("names with “shop”"))
        #expect(lines(TopState(matching: "shop"), figures)[4] == "no queue has this in its name: Esc shows all")
        var state = TopState()
        state.view = .workers
        #expect(lines(state, figures)[4] == "workers send for all tenants: only operators see them")
        figures.workers = []
        #expect(lines(state, figures)[4] == "no worker is running: pushq work")
        state.view = .answers
        #expect(lines(state, figures)[4] == "nothing was answered in the last seconds")
    }

    @Test func `says that the database is away, and of when the figures are`() {
        var state = TopState()
        state.problem = "cannot connect"
        #expect(lines(state).last == "no answer since 09:03:44 UTC: cannot connect")
    }

    @Test func `says how many queues there are where it shows a part`() {
        var figures = TopSample.figures
        figures.loads.found = 10_000
        #expect(lines(TopState(), figures)[1].hasPrefix("queues 4 of 10,000 (1 paused)  waiting 1,204,519+"))
    }

    @Test(arguments: [(1, 1), (1, 24), (10, 3), (20, 5), (40, 10), (60, 24), (80, 24), (300, 100)])
    func `fits on every terminal`(columns: Int, rows: Int) {
        for view in TopState.View.allCases {
            for prompt in [
                nil, TopState.Prompt.help, .filter("shop"), .confirm(.pause(TopSample.queue("com.acme.shop"))),
            ] {
                var state = TopState()
                (state.view, state.prompt) = (view, prompt)
                let size = TerminalScreen.Size(columns: columns, rows: rows)
                let drawing = TopDrawing(state, TopSample.figures, size: size, every: .seconds(2))
                #expect(drawing.lines.count == rows)
                let width = max(1, columns - 1)
                for line in drawing.lines {
                    let encoded = line.encoded(columns: width, inColor: false)
                    #expect(encoded.replacing(/\u{1B}\[[0-9;]*m/, with: "").terminalColumns <= width)
                }
            }
        }
    }

    @Test func `leaves out the least important columns where it is narrow, and keeps both ends of a name`() {
        let narrow = lines(columns: 60)
        #expect(narrow[4].split(separator: " ").joined(separator: " ") == "queue state waiting oldest")
        #expect(narrow[6].hasPrefix("acme/com.acme.shop") && narrow[6].contains("production"))
        let least = lines(columns: 24)
        #expect(least[4].split(separator: " ").joined(separator: " ") == "queue")
        #expect(least[6].contains("…"))
    }

    @Test func `shows its help and its keys whole where it is narrow`() {
        var state = TopState()
        state.prompt = .help
        let words = { (lines: [String]) in lines.joined(separator: " ").split(separator: " ") }
        let whole = words(lines(state, rows: 100))
        for columns in [40, 60, 80] {
            let narrow = lines(state, columns: columns, rows: 100)
            #expect(narrow.dropFirst(3).allSatisfy { $0.terminalColumns < columns }, "\(columns)")
            #expect(words(Array(narrow.dropFirst(3))) == words(Array(lines(state, rows: 100).dropFirst(3))))
        }
        #expect(whole.count > 100)
        let keys = lines(columns: 60).last
        #expect(keys == "q quit  1 2 3 views  s order  / filter  p pause  ? help")
        #expect(lines(columns: 24).last == "q quit  ? help")
    }

    @Test func `marks the selected queue, and turns the page to it`() {
        var figures = TopSample.figures
        figures.loads.queues = (10...60).map { QueueLoad(queue: TopSample.queue("com.acme.a\($0)")) }
        var state = TopState(order: .name)
        state.selected = TopSample.queue("com.acme.a31")
        let size = TerminalScreen.Size(columns: 100, rows: 16)
        let drawing = TopDrawing(state, figures, size: size, every: .seconds(2))
        #expect(drawing.page == 10)
        let shown = drawing.lines.filter { $0.text.contains("com.acme.a") }
        #expect(shown.first?.text.contains("a30/") == true && shown.count == 10)
        let marked = drawing.lines.filter { $0.encoded(columns: 99, inColor: true).hasPrefix("\u{1B}[7m") }
        #expect(marked.map { $0.text.contains("a31/") } == [true])
    }
}
