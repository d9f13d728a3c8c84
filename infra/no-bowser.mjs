// What bundles get for `bowser`: the AWS SDK names the browser with it that it runs in, which is none here.
export {};
