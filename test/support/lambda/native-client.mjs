// A preload for the Lambda runtime client (aws-lambda-ric), whose C++ part is not built for tests. With
// AWS_LAMBDA_NODEJS_USE_ALTERNATIVE_CLIENT_1 the client asks for its work in plain JavaScript. Answers of streaming
// handlers are always plain JavaScript. What is left of the C++ part is its report of a crash.
import Module from 'node:module';

const nativeClient = {
  initializeClient() {},
  done() {
    throw new Error('only streaming handlers are supported here');
  },
  error(_invocationId, bodyJson) {
    process.stderr.write(`${bodyJson}\n`); // the process exits right after this call, and its exit fails the invocation
  },
};

const load = Module._load;
Module._load = function loadWithoutNativePart(request, ...rest) {
  return request.endsWith('/rapid-client.node') ? nativeClient : load.call(this, request, ...rest);
};
