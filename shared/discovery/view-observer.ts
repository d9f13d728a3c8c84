/** Where a reading of the fleet came from: the view, the leases in place of a view that is too old, or the leases for the view. */
export type ReadingSource = 'view' | 'leases' | 'gathered';

/** Told how a process reads the fleet, where a store keeps a view of it. */
export interface ViewObserver {
  /** A reading was made; the view that it shows was written `ageMs` ago. */
  read(source: ReadingSource, ageMs: number): void;
  /** This process has begun to gather the view for all, or does so no more: then with the reason. */
  gathering(isGathering: boolean, reason?: string): void;
}
