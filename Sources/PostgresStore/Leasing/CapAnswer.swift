/// The answer of a frequency cap about the recipients of a job. Recipients that it does not hold back have a place,
/// which counts until the job has ended, and after that if they got the push.
package struct CapAnswer: Sendable {
    /// Whether a recipient without a place has certainly got nothing from earlier holders of the job either.
    package let isWhole: Bool
    /// Whether places were taken; they are not for a job of which nothing will be sent.
    package var wasAsked = false
    /// The recipients that the cap holds back, by device.
    package var held: [Int64: CapHold] = [:]

    package init(isWhole: Bool = true) { self.isWhole = isWhole }
}
