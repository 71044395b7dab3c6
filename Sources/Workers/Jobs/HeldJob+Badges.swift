import PostgresStore
import QueueCore

/// Which recipients give back that the message has raised the number on their app's icon: those that got no push, and
/// get none soon. A message that is sent after all is counted anew.
///
/// Two kinds of recipients may wait for hours or days while other messages arrive, and bring the count: those of a
/// paused campaign, and those that have quiet hours. All others that continue stay counted. Where a rate is low,
/// hundreds of jobs go back each second and are claimed again, and each would cost two more writes for each recipient.
extension HeldJob {
    /// What the end of the job gives back.
    var badgesGivenBackByEnd: GivenBackBadges? {
        badges { ordinal in
            let outcome = Outcome(rawValue: outcomes[ordinal])
            return switch outcome.kind {
            case .rejected, .expired, .cancelled, .suppressed: true
            case .failed: losses(of: ordinal) == 0
            case .postponed: outcome == .retried(.quietHours) && isCountedInVain(ordinal)
            case .delivered, .unknown, .retried, .waiting, nil: false
            }
        }
    }

    /// What is given back before recipients with quiet hours are handed over. At the end of this job it would be too
    /// late: by then, they may have been sent to.
    var badgesGivenBackByHandOver: GivenBackBadges? {
        badges { Outcome(rawValue: outcomes[$0]) == .retried(.quietHours) && isCountedInVain($0) }
    }

    /// What the job gives back if it goes back and waits for this time. Only jobs of a paused campaign wait, except for
    /// broadcasts, which have no badges.
    ///
    /// The recipients of a paused campaign that this worker cannot give back together continue in another job. Its
    /// claim finds that the campaign is paused.
    func badgesGivenBack(whileWaiting delay: Duration) -> GivenBackBadges? {
        // A job whose campaign was paused before its claim was not asked about in that claim.
        guard delay > .zero, !claim.isPaused || mayHaveBeenCounted else { return nil }
        return badges { outcomes[$0] == 0 && !isUncertain($0) }
    }

    /// Whether a recipient that continues in another job may be counted although it certainly got no push.
    private func isCountedInVain(_ ordinal: Ordinal) -> Bool {
        // If a hand-over may have been carried out, it has given back, and the recipient may have been counted since.
        guard mayHaveBeenCounted, !isHandOverInDoubt, !handedOver.contains(ordinal) else { return false }
        return ordinal >= claim.previousWatermark && losses(of: ordinal) == 0
    }

    /// Whether an earlier claim may have counted the message for the recipients. Without this, each recipient of a
    /// campaign that is started at night, or paused before it is sent, would be looked up in vain.
    private var mayHaveBeenCounted: Bool { claim.key.epoch > 1 || claim.isContinued }

    private func badges(where isGivenBack: (Ordinal) -> Bool) -> GivenBackBadges? {
        guard let increment = claim.badgeIncrement, claim.damage == nil else { return nil }
        let devices = outcomes.indices.filter(isGivenBack).map { claim.deviceIDs[$0] }
        return devices.isEmpty ? nil : GivenBackBadges(increment: increment, deviceIDs: devices)
    }
}
