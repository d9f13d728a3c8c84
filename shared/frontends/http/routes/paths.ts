/** Paths of operators' routes, whose handlers are loaded when somebody asks for them. */
export const BUSY_THRESHOLD_PATH = '/busy_threshold';
export const CLEAR_KV_BLOCKS_PATH = '/clear_kv_blocks';
/** Below it stands a response id (`chatcmpl-...`) or a request id. */
export const EXPLAIN_PATH = '/router/explain';
