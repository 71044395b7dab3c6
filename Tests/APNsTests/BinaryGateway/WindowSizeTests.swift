import Testing

@testable import APNs

@Suite struct `The size of a window` {
    @Test func `is the largest until an error comes, and a few times what is taken between errors from then on`() {
        let size = WindowSize(maximum: 5000)
        size.noteAccepted(100_000)
        #expect(size.current == 5000)
        for _ in 0..<40 {
            size.noteAccepted(50)
            size.noteError()
        }
        // The average is an integer, and comes within four of the exact value.
        #expect((4 * 46...4 * 54).contains(size.current))
    }

    @Test func `is never less than what is written at a time anyway, nor more than the limit`() {
        let size = WindowSize(maximum: 5000)
        for _ in 0..<10 { size.noteError() }
        #expect(size.current == WindowSize.minimum)
        size.noteAccepted(1_000_000)
        #expect(size.current == 5000)
        let small = WindowSize(maximum: 10)
        small.noteError()
        #expect(small.current == 10)
    }

    @Test func `grows again as long as there is silence`() {
        let size = WindowSize(maximum: 5000)
        size.noteError()
        var windows: [Int] = []
        while size.current < 5000, windows.count < 20 {
            windows.append(size.current)
            size.noteAccepted(size.current)
        }
        #expect(windows == [20, 80, 400, 2000])
    }

    @Test func `is halved when a connection ends without a word`() {
        let size = WindowSize(maximum: 4096)
        let halves = (0..<8).map { _ in
            size.noteLoss()
            return size.current
        }
        #expect(halves == [2048, 1024, 512, 256, 128, 64, 32, 20])
    }
}
