// A preload for the Lambda runtime client (aws-lambda-ric), whose C++ part is not built for tests. With
// AWS_LAMBDA_NODEJS_USE_ALTERNATIVE_CLIENT_1 the client asks for its work in plain JavaScript. Answers of streaming
// handlers are always plain JavaScript. What is left of the C++ part is its report of a crash, and the answers of other
// handlers. It sends these before it returns, which JavaScript can only do in another process.
import { execFileSync } from 'node:child_process';
import Module from 'node:module';

const POST = `
  const request = require('node:http').request(process.argv[1], { method: 'POST' }, (answer) => answer.resume());
  process.stdin.pipe(request);
`;

const nativeClient = {
  initializeClient() {},
  done(invocationId, body) {
    const address = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation/${invocationId}/response`;
    execFileSync(process.execPath, ['-e', POST, address], { input: body });
  },
  error(_invocationId, bodyJson) {
    process.stderr.write(`${bodyJson}\n`); // the process exits right after this call, and its exit fails the invocation
  },
};

const load = Module._load;
Module._load = function loadWithoutNativePart(request, ...rest) {
  return request.endsWith('/rapid-client.node') ? nativeClient : load.call(this, request, ...rest);
};
