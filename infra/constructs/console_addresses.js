// CloudFront runs this for every request: the bucket has no index pages, and the API answers below every other address.
function handler(event) {
  var request = event.request;
  if (request.uri === '/' || request.uri === '/console') {
    return { statusCode: 302, statusDescription: 'Found', headers: { location: { value: '/console/' } } };
  }
  if (request.uri === '/console/') request.uri = '/console/index.html';
  return request;
}
