/// What a frequency cap says to the recipients of a job. Those that it does not hold back have a place, which counts
/// until the job has ended, and after that if they got the push.
package struct CapAnswer: Sendable {
    /// Whether a recipient without a place has certainly got nothing from earlier holders either.
    package let isWhole: Bool
    /// Whether places were taken at all: not for a job of which nothing will be sent.
    package var wasAsked = false
    /// By device.
    package var held: [Int64: RecipientHold] = [:]

    package init(isWhole: Bool = true) { self.isWhole = isWhole }
}
