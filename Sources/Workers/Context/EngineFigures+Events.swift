extension EngineFigures {
    /// Counts those events that metrics show.
    func note(_ event: EngineEvent) {
        switch event {
        case .leasesLost(let count): counts.leasesLost += count
        case .leasesFound(let count, _): counts.leasesFound += count
        case .jobsRescued(let count): counts.jobsRescued += count
        case .jobQuarantined: counts.jobsQuarantined += 1
        case .jobSetAside: counts.jobsSetAside += 1
        case .storeLost, .storeSilent: counts.storeLosses += 1
        case .oldPrimary: counts.oldPrimaries += 1
        case .outageBegun: counts.outages += 1
        default: break
        }
    }
}
