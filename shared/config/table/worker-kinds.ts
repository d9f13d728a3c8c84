import { worker } from '../row.ts';

/** Rows of "Kinds of workers". */
export const workerKindRows = {
  embeddingWorker: worker.bool({
    names: '--embedding-worker DYN_VLLM_EMBEDDING_WORKER',
    note: '--engine vllm, sglang or openai; --disaggregation-mode agg',
    about:
      'Serves embeddings and nothing else; an engine that is started is started for it (--runner pooling, --is-embedding).',
  }),
  embeddingFrontendTokenization: worker.bool({
    names: '--embedding-frontend-tokenization DYN_VLLM_EMBEDDING_FRONTEND_TOKENIZATION',
    note: 'needs --embedding-worker and the files of the model',
    about: 'Frontends tokenize what is to be embedded, one input at a time; else the engine does.',
  }),
  embeddingWorkerProcesses: worker.int({
    names: '--embedding-worker-processes DYN_VLLM_EMBEDDING_WORKER_PROCESSES',
    range: { min: 1 },
    default: 1,
    note: 'only 1',
    about: 'Processes of one engine; more workers on one engine are more processes with --engine-url.',
  }),
};
