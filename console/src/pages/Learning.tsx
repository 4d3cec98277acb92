export default function Learning() {
  return <p>Learning</p>;
}
