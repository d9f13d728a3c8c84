import type { FrontendMetrics } from '../../telemetry/index.ts';
import type { InferenceDeps } from '../inference/index.ts';

/** What the KServe service works with. */
export interface KserveDeps extends InferenceDeps {
  readonly metrics: InferenceDeps['metrics'] & Pick<FrontendMetrics, 'limitReached'>;
  /** Of the product, for `ServerMetadata`. */
  readonly version: string;
}
