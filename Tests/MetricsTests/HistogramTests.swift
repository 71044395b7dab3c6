import Metrics
import Testing

@Suite struct `A histogram` {
    @Test func `counts what lies on a bound below it, and what is beyond all in the last bucket`() {
        var histogram = Histogram([1_000_000, 5_000_000])
        histogram.observe(nanoseconds: 1_000_000)
        histogram.observe(nanoseconds: 1_000_001, count: 3)
        histogram.observe(.seconds(7))
        histogram.observe(.milliseconds(-3))
        #expect(histogram.counts == [2, 3, 1])
        #expect(histogram.count == 6)
        #expect(histogram.sumNanoseconds == 1_000_000 + 3 * 1_000_001 + 7_000_000_000)
    }

    @Test func `adds up bucket by bucket`() {
        var (one, other) = (Histogram([10]), Histogram([10]))
        one.observe(nanoseconds: 4)
        other.observe(nanoseconds: 11, count: 2)
        one.add(other)
        #expect(one.counts == [1, 2])
        #expect(one.sumNanoseconds == 26)
    }
}
