// What bundles get for `@grpc/proto-loader`: grpc-js would read .proto files with it, for services that
// report on channels, which nothing here starts.
export function loadSync() {
  throw new Error('no .proto files are read here');
}
