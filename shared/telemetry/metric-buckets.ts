import type { EdgeSettings } from '../config/index.ts';

/** Histogram ranges as the settings say them. */
export function bucketsOf(settings: EdgeSettings) {
  return {
    requestDuration: {
      min: settings.metricsRequestDurationMin,
      max: settings.metricsRequestDurationMax,
      count: settings.metricsRequestDurationCount,
    },
    inputSequence: {
      min: settings.metricsInputSequenceMin,
      max: settings.metricsInputSequenceMax,
      count: settings.metricsInputSequenceCount,
    },
    outputSequence: {
      min: settings.metricsOutputSequenceMin,
      max: settings.metricsOutputSequenceMax,
      count: settings.metricsOutputSequenceCount,
    },
    ttft: { min: settings.metricsTtftMin, max: settings.metricsTtftMax, count: settings.metricsTtftCount },
    itl: { min: settings.metricsItlMin, max: settings.metricsItlMax, count: settings.metricsItlCount },
    embeddingLatency: {
      min: settings.metricsEmbeddingLatencyMin,
      max: settings.metricsEmbeddingLatencyMax,
      count: settings.metricsEmbeddingLatencyCount,
    },
  };
}
