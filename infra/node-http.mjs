// What bundled functions get for `node:http`. Imported as an ES module, Node's own looks at every name that it exports, two of
// which load all of `fetch`: 15 to 30 ms of CPU of each cold start.
const http = process.getBuiltinModule('node:http');
// biome-ignore lint/style/noDefaultExport: as Node's module has it
export default http;
export const {
  Agent,
  ClientRequest,
  createServer,
  get,
  globalAgent,
  IncomingMessage,
  METHODS,
  maxHeaderSize,
  request,
  Server,
  ServerResponse,
  STATUS_CODES,
} = http;
