extension Array {
    /// Moves an element of a heap down until none of the two below it precedes it.
    @inline(__always)
    mutating func sink(at start: Int, precedes: (Element, Element) -> Bool) {
        var place = start
        while true {
            var first = place
            for child in 2 * place + 1...2 * place + 2 where child < count && precedes(self[child], self[first]) {
                first = child
            }
            guard first != place else { return }
            swapAt(place, first)
            place = first
        }
    }

    /// Moves an element of a heap up until it does not precede the one above it.
    @inline(__always)
    mutating func rise(at start: Int, precedes: (Element, Element) -> Bool) {
        var place = start
        while place > 0, precedes(self[place], self[(place - 1) / 2]) {
            swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }
}
