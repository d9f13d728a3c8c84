import type { Settings } from '../../config/index.ts';
import type { SchedulerOptions } from './scheduler.ts';

/** The engine model of mock and simulated workers, but for the size of its cache. */
export function engineModel(settings: Settings<'worker' | 'simulate'>): Omit<SchedulerOptions, 'numGpuBlocks'> {
  return {
    blockSizeTokens: settings.blockSize,
    maxNumSeqs: settings.maxNumSeqs,
    maxNumBatchedTokens: settings.maxNumBatchedTokens,
    enablePrefixCaching: settings.enablePrefixCaching,
    enableChunkedPrefill: settings.enableChunkedPrefill,
    preemptionMode: settings.preemptionMode,
    watermark: settings.watermark,
    engineType: settings.engineType,
    speedupRatio: settings.speedupRatio,
    decodeSpeedupRatio: settings.decodeSpeedupRatio,
  };
}
