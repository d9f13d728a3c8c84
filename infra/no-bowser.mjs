// Stands in for `bowser` in bundles: the AWS SDK uses it only inside a browser.
export {};
